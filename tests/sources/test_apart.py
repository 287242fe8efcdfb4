import importlib
import os
import signal
import sys

import pytest

from toolbank.sources import SOURCES
from toolbank.sources import python as apart
from toolbank.sources.python.package import read_package
from toolbank.sources.python.settings import PythonSource
from toolbank.system.errors import InputError

KINDS = ("function", "method", "class", "module")


def read(package, cache):
    source = PythonSource(package=package, kinds=KINDS)
    return SOURCES.find("python", "").read(source, cache)


def read_function(package):
    return read_package(PythonSource(package=package)).tools[-1]


def test_it_gives_what_reading_here_gives(make_package, tmp_path):
    package = make_package(
        'def f(x: float = 0.1, *, y="\\ud800", z=None): "Do."\nX = 1'
    )
    source = PythonSource(package=package, kinds=KINDS)
    here = read_package(source)
    assert read(package, tmp_path) == here
    assert here.tools


def test_the_same_tools_come_of_it_whatever_was_imported_before(make_package, tmp_path):
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


def test_reading_leaves_nothing_in_this_process(make_package, tmp_path):
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
def test_a_package_that_ends_the_process_is_told(make_package, tmp_path, end):
    package = make_package(f"import os\n{end}")
    with pytest.raises(InputError, match=f"{package} ended its process .*work first"):
        read(package, tmp_path)


def test_no_module_here_goes_before_ours(make_package, tmp_path, monkeypatch):
    package = make_package('def f(): "Do."')
    here = tmp_path / "here"
    here.mkdir()
    (here / "json.py").write_text("raise SystemExit")
    monkeypatch.chdir(here)
    assert read(package, tmp_path).tools


HOSTILE = {
    "raises": "raise RuntimeError",
    "ends": "raise SystemExit(3)",
    "recurs": "return repr(self)",
    "is_long": 'return "x" * 10_000_000',
    "is_no_text": "return 7",
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_a_default_that_has_no_text_is_shown_as_any_object(make_package, body):
    package = make_package(f"""
            class Odd:
                def __repr__(self): {body}
            def f(a, b=Odd(), c: "list[int]" = (1, 2), d=[Odd()]) -> Odd(): "Do."
            """)
    tool = read_function(package)
    odd = f"<{package}.Odd object>"
    assert tool.signature.startswith(
        f"{package}.f(a, b={odd}, c: list[int] = (1, 2), d="
    )
    assert tool.signature.endswith(f" -> {odd}")
    assert tool.parameters["required"] == ["a"]
    assert tool.parameters["properties"]["c"]["default"] == [1, 2]


def test_a_default_that_hangs_names_its_package(make_package, tmp_path, monkeypatch):
    package = make_package("""
            class Slow:
                def __repr__(self):
                    while True: pass
            def f(a, b=Slow(), c=2): "Do."
            """)
    monkeypatch.setattr(apart, "_LONGEST", 0.5)
    with pytest.raises(InputError, match=f"{package} did not end within .* hangs"):
        read(package, tmp_path)


def test_where_ctrl_c_is_ignored_it_does_not_end_the_reading(make_package, tmp_path):
    """As in what a script runs with `&`."""
    package = make_package("""
            import signal
            signal.raise_signal(signal.SIGINT)
            def f(a): "Do."
            """)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        [tool] = read(package, tmp_path).tools
    finally:
        signal.signal(signal.SIGINT, before)
    assert tool.name == f"{package}.f"


def test_what_a_default_says_of_itself_is_kept(make_package):
    package = make_package("""
            class Unset:
                def __repr__(self): return "UNSET"
            def f(a=Unset(), b=float("inf"), c="x", d=dict, e: int | None = None): "Do."
            """)
    assert read_function(package).signature == (
        f"{package}.f(a=UNSET, b=inf, c='x', d=dict, e: int | None = None)"
    )
