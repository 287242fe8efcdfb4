"""Small packages written to disk, importable for the length of a test."""

import itertools
import sys
from collections.abc import Callable
from textwrap import dedent

import pytest

_numbers = itertools.count()

MakePackage = Callable[[dict[str, str] | str], str]


@pytest.fixture
def make_package(tmp_path, monkeypatch):
    """Writes files, or __init__.py alone, and gives the package's name, PKG in them."""
    made = []
    monkeypatch.syspath_prepend(tmp_path)

    def make(files):
        files = {"__init__.py": files} if isinstance(files, str) else files
        name = f"written_package_{next(_numbers)}"
        made.append(name)
        for path, text in files.items():
            file = tmp_path / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(dedent(text).replace("PKG", name))
        return name

    yield make
    for module in list(sys.modules):
        if module.partition(".")[0] in made:
            del sys.modules[module]
