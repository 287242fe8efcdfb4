"""Default values and annotations of a package are foreign objects; writing them is bounded."""

import signal
from pathlib import Path

import pytest

from tests.sources.packages import MakePackage
from toolbank.bank.records import Tool
from toolbank.sources import SOURCES
from toolbank.sources import python as apart
from toolbank.sources.python.package import read_package
from toolbank.sources.python.settings import PythonSource
from toolbank.system.errors import InputError

HOSTILE = {
    "raises": "raise RuntimeError",
    "ends": "raise SystemExit(3)",
    "recurs": "return repr(self)",
    "is_long": 'return "x" * 10_000_000',
    "is_no_text": "return 7",
}


def read(package: str) -> dict[str, Tool]:
    tools = read_package(PythonSource(package=package)).tools
    return {tool.name.removeprefix(f"{package}."): tool for tool in tools}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_a_default_that_has_no_text_is_shown_as_any_object(
    make_package: MakePackage, body: str
) -> None:
    package = make_package(f"""
            class Odd:
                def __repr__(self): {body}
            def f(a, b=Odd(), c: "list[int]" = (1, 2), d=[Odd()]) -> Odd(): "Do."
            """)
    tool = read(package)["f"]
    odd = f"<{package}.Odd object>"
    assert tool.signature.startswith(
        f"{package}.f(a, b={odd}, c: list[int] = (1, 2), d="
    )
    assert tool.signature.endswith(f" -> {odd}")
    assert tool.parameters["required"] == ["a"]
    assert tool.parameters["properties"]["c"]["default"] == [1, 2]


def test_a_default_that_hangs_is_told_with_its_package(
    make_package: MakePackage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = make_package("""
            class Slow:
                def __repr__(self):
                    while True: pass
            def f(a, b=Slow(), c=2): "Do."
            """)
    monkeypatch.setattr(apart, "_LONGEST", 0.5)
    source = PythonSource(package=package)
    with pytest.raises(InputError, match=f"{package} did not end within .* hangs"):
        SOURCES.find("python", "").read(source, tmp_path)


def test_where_ctrl_c_is_ignored_it_does_not_end_the_reading(
    make_package: MakePackage, tmp_path: Path
) -> None:
    """As in what a script runs with `&`."""
    package = make_package("""
            import signal
            signal.raise_signal(signal.SIGINT)
            def f(a): "Do."
            """)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        source = PythonSource(package=package)
        read = SOURCES.find("python", "").read(source, tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    assert [tool.name for tool in read.tools] == [f"{package}.f"]


def test_what_a_default_says_of_itself_is_kept(make_package: MakePackage) -> None:
    package = make_package("""
            class Unset:
                def __repr__(self): return "UNSET"
            def f(a=Unset(), b=float("inf"), c="x", d=dict, e: int | None = None): "Do."
            """)
    assert read(package)["f"].signature == (
        f"{package}.f(a=UNSET, b=inf, c='x', d=dict, e: int | None = None)"
    )
