"""A package is read in a process of its own."""

import importlib
import os
import sys
from pathlib import Path

import pytest

from tests.sources.packages import MakePackage
from toolbank.sources import SOURCES
from toolbank.sources.kind import ToolCollection
from toolbank.sources.python.package import read_package
from toolbank.sources.python.settings import PythonSource
from toolbank.system.errors import InputError

KINDS = ("function", "method", "class", "module")


def read(package: str, cache: Path) -> ToolCollection:
    source = PythonSource(package=package, kinds=KINDS)
    return SOURCES.find("python", "").read(source, cache)


def test_it_gives_what_reading_here_gives(
    make_package: MakePackage, tmp_path: Path
) -> None:
    package = make_package(
        'def f(x: float = 0.1, *, y="\\ud800é", z=None): "Do."\nX = 1'
    )
    source = PythonSource(package=package, kinds=KINDS)
    here = read_package(source)
    assert read(package, tmp_path) == here
    assert here.tools


def test_the_same_tools_come_of_it_whatever_was_imported_before(
    make_package: MakePackage, tmp_path: Path
) -> None:
    package = make_package(
        {
            "__init__.py": '"""Top."""\nfrom PKG import used',
            "used.py": '"""Used."""\ndef f(): "Do."',
            "__main__.py": 'raise AssertionError("__main__ was imported")',
            "_private.py": 'raise AssertionError("a private module was imported")',
            "tests/__init__.py": 'raise AssertionError("tests were imported")',
            "unused.py": '"""Not imported by the package."""\ndef g(): "Go."',
            "old.py": '"""Old."""\nimport warnings\n'
            'warnings.warn("old goes", DeprecationWarning)\ndef h(): "Help."',
        }
    )
    before = read(package, tmp_path)
    assert [tool.name.removeprefix(f"{package}.") for tool in before.tools] == [
        *("unused", "unused.g", "used", "used.f")
    ]
    assert before.info["left_out"] == {"deprecated module": 1}
    with pytest.deprecated_call():
        for name in ("unused", "old"):
            importlib.import_module(f"{package}.{name}")
    assert read(package, tmp_path) == before


def test_reading_leaves_nothing_in_this_process(
    make_package: MakePackage, tmp_path: Path
) -> None:
    package = make_package(
        "import os, sys, threading, time\n"
        'os.environ["CHANGED"] = "1"\nprint("hello")\nsys.stdin.read()\n'
        "threading.Thread(target=time.sleep, args=(3600,)).start()\n"
        'def f(): "Do."'
    )
    [tool] = read(package, tmp_path).tools
    assert tool.name == f"{package}.f"
    assert package not in sys.modules
    assert "CHANGED" not in os.environ


@pytest.mark.parametrize("end", ["os._exit(7)", "os.abort()"])
def test_a_package_that_ends_the_process_is_told(
    make_package: MakePackage, tmp_path: Path, end: str
) -> None:
    package = make_package(f"import os\n{end}")
    with pytest.raises(InputError, match=f"{package} ended its process .*work first"):
        read(package, tmp_path)


def test_a_module_of_the_current_folder_goes_before_none_of_ours(
    make_package: MakePackage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = make_package('def f(): "Do."')
    here = tmp_path / "here"
    here.mkdir()
    (here / "json.py").write_text("raise SystemExit")
    monkeypatch.chdir(here)
    assert read(package, tmp_path).tools
