import pytest

from tests.commands.in_process import toolbank
from tests.world import write_recipe

BY_RULES = {"engine": "rules", "queries": 30}


@pytest.fixture
def recipe(tmp_path):
    write_recipe(tmp_path, **BY_RULES)
    return tmp_path


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    write_recipe(folder, **BY_RULES)
    done = toolbank("run", "mine.yaml", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder
