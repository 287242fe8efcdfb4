import shutil

import pytest

from tests.commands.in_process import do
from tests.shared_runs import share_folder
from tests.world import write_recipe

BY_RULES = {"engine": "rules", "queries": 30}


@pytest.fixture
def recipe(tmp_path):
    write_recipe(tmp_path, **BY_RULES)
    return tmp_path


@pytest.fixture(scope="session")
def shared_run(tmp_path_factory):
    def make(folder):
        write_recipe(folder, **BY_RULES)
        do(folder, "run", "mine.yaml")

    return share_folder(tmp_path_factory, "run-by-rules", make)


@pytest.fixture
def finished(shared_run, tmp_path):
    return shutil.copytree(shared_run, tmp_path / "finished")
