"""A retriever of another package: what is wrong with it is told as its package's."""

import os
import subprocess
import sys
from importlib import import_module

import pytest

from tests.world import write_recipe
from toolbank.retrievers import create_retriever
from toolbank.system.errors import InputError

KINDS = """
    from typing import Literal

    from toolbank.retrievers.settings import Bm25Config
    from toolbank.retrievers.kind import RetrieverKind


    class Config(Bm25Config):
        type: Literal["odd"] = "odd"


    KIND = RetrieverKind(Config, "odd_method:{name}")

    from toolbank.retrievers.base import Retriever
    from toolbank.retrievers.bm25 import Bm25Retriever


    class Empty(Retriever):
        pass


    class Unfit(Bm25Retriever):
        def fit(self, bank, context=None):
            return bank.no_such_thing


    class Lost(Bm25Retriever):
        def search(self, queries, k):
            return {{}}["nothing"]


    class Other:
        def __init__(self, config):
            pass
"""


@pytest.fixture
def install(install_package):
    def lay(name):
        install_package(
            "toolbank.retrievers", "odd_method", KINDS.format(name=name), odd="KIND"
        )

    return lay


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Missing", r"be made of odd_method:Missing \(AttributeError"),
        ("Empty", r"be made of odd_method:Empty \(TypeError: .*abstract"),
        ("Other", r"it is a Other, and no Retriever"),
    ],
)
def test_a_class_that_is_none_is_told_of_its_package(install, name, told):
    install(name)
    config = import_module("odd_method").Config()
    with pytest.raises(InputError, match=f"package odd-method can't .*{told}"):
        create_retriever(config)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Unfit", ["be fitted", "no_such_thing"]),
        pytest.param(
            "Lost", ["be searched", "KeyError: 'nothing'"], marks=pytest.mark.slow
        ),
    ],
)
def test_what_it_can_not_do_in_a_run_is_told_without_a_traceback(
    install, tmp_path, name, told
):
    install(name)
    write_recipe(tmp_path, engine="rules", queries=30)
    paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    command = [sys.executable, "-m", "toolbank", "run", "mine.yaml"]
    done = subprocess.run(
        [*command, "--set", "retrievers=[{type: odd}]"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    said = " ".join(done.stderr.split())
    assert "the retriever 'odd' of the package odd-method can't" in said
    for part in (*told, "odd_method.py, line"):
        assert part in said
