"""Folders of Python source: what is read of them, and that nothing of them is run."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sources.packages import MakePackage
from toolbank.bank.records import PythonCall
from toolbank.sources import SOURCES
from toolbank.sources.kind import Collected
from toolbank.sources.python.settings import PythonSource
from toolbank.system.errors import InputError

MODULE = '''
    """A module."""
    import enum
    import typing as t
    from dataclasses import dataclass
    from pathlib import Path

    from PKG.shapes import Shape, area
    from PKG._hidden import helper

    Path(__file__).with_name("was-run").touch()

    class Color(enum.Enum):
        """A colour."""
        RED = 1

    class Broken(ValueError):
        """It broke."""

    @dataclass
    class Point:
        """A point."""
        x: int
        y: int = 0

    class Canvas:
        """What is drawn on.

        Args:
            width: How wide.
        """
        def __init__(self, width: int, *, mode: t.Optional[str] = None) -> None: ...

        def draw(self, shape: Shape, /, times: int = 1, **options) -> "Canvas":
            """Draw a shape.

            Args:
                shape: What is drawn.
                times: How often.
            """

        @property
        def size(self) -> int:
            """How large it is."""

        @classmethod
        def load(cls, path: str) -> "Canvas":
            """Load one."""

        @staticmethod
        def names(*of: str) -> list[str]:
            """All names."""

        def _private(self): "Private."

        def bare(self): ...

    class Wide(Canvas):
        """A wide one."""
        def draw(self, shape, /, times=1, **options): ...

    def clear(canvas, colour: t.Literal["red", "blue"] = "red", after=Path.cwd()) -> None:
        """Clear it."""
'''
FILES = {
    "__init__.py": MODULE,
    "shapes.py": '''
        class Shape:
            """A shape."""
            def __init__(self, n): ...
        def area(shape: Shape) -> float:
            """Measure it."""
        def _private(): "Private."
    ''',
    "_hidden.py": 'def helper(a): "Help."',
    "named.py": '__all__ = ["f"]\ndef f(a): "Do it."\ndef g(a): "Not named."\n',
    "tests/__init__.py": 'def check(a): "Check."',
}


def read(folder: Path, **more: object) -> Collected:
    kind = SOURCES.find("python", "")
    return kind.read(PythonSource.model_validate({"folder": folder, **more}), folder)


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(dedent(text))
    return folder


def test_a_folder_gives_the_tools_that_the_package_does(
    make_package: MakePackage, tmp_path: Path
) -> None:
    name = make_package(FILES)
    by_text = read(tmp_path / name)
    assert not (tmp_path / name / "was-run").exists()
    by_import = SOURCES.find("python", "").read(PythonSource(package=name), tmp_path)
    assert (tmp_path / name / "was-run").exists()
    found = {tool.name: tool for tool in by_text.tools}
    imported = {tool.name: tool for tool in by_import.tools}
    assert list(found) == list(imported)
    for tool in found.values():
        other = imported[tool.name]
        assert tool.model_dump(include=SAME) == other.model_dump(include=SAME)
        assert list(tool.parameters["properties"]) == list(
            other.parameters["properties"]
        )
        assert tool.parameters.get("required") == other.parameters.get("required")
    drawn = found[f"{name}.Canvas.draw"]
    assert drawn.signature == (
        f"{name}.Canvas.draw(shape: Shape, /, times: int = 1, **options) -> Canvas"
    )
    assert drawn.call == PythonCall(path=f"{name}.Canvas.draw")
    assert drawn.parameters["properties"]["times"] == {
        "type": "integer",
        "default": 1,
        "description": "How often.",
    }
    assert found[f"{name}.clear"].parameters["properties"]["colour"]["enum"] == [
        "red",
        "blue",
    ]


SAME = {"kind", "summary", "description", "aliases", "call"}


def test_kinds_methods_and_parents_narrow_what_is_read(
    make_package: MakePackage, tmp_path: Path
) -> None:
    name = make_package(FILES)
    folder = tmp_path / name

    def names(**more: object) -> list[str]:
        return [
            tool.name.removeprefix(f"{name}.") for tool in read(folder, **more).tools
        ]

    assert names(kinds=["exception"]) == ["Broken"]
    assert names(kinds=["enum", "record"]) == ["Color", "Point"]
    assert names(kinds=["property"]) == ["Canvas.size"]
    assert "Canvas.draw" not in names(methods=False)
    assert names(parents=[f"{name}.named"]) == ["named.f"]
    assert "named.f" not in names(exclude=[f"{name}.named"])


@pytest.mark.parametrize("inside", ["src/weather", "weather"])
def test_packages_and_modules_are_found_in_a_folder(
    tmp_path: Path, inside: str
) -> None:
    write(tmp_path / inside, __init__='def rain(city): "Say if it rains."')
    assert [tool.name for tool in read(tmp_path).tools] == ["weather.rain"]


def test_loose_modules_are_read_but_for_scripts_and_tests(tmp_path: Path) -> None:
    write(
        tmp_path,
        a='def f(x): "Do."',
        _b='def g(x): "Do."',
        setup='def h(x): "Do."',
        tests='def i(x): "Do."',
    )
    assert [tool.name for tool in read(tmp_path).tools] == ["a.f"]


def test_a_file_that_can_not_be_parsed_is_named_with_its_line(tmp_path: Path) -> None:
    package = write(
        tmp_path / "weather",
        __init__='def rain(city): "Say if it rains."',
        broken="def f(:\n",
        old='print "hello"',
    )
    (package / "latin.py").write_bytes(
        '# coding: latin-1\ndef ä(x): "Dö it."\n'.encode("latin-1")
    )
    (package / "binary.py").write_bytes(b"\xff\xfe\x00")
    collected = read(package)
    assert [tool.name for tool in collected.tools] == ["weather.rain"]
    assert collected.info["left_out"]["can't be parsed"] == 4
    assert any(
        "weather/broken.py, line 1: invalid syntax" in p for p in collected.problems
    )
    assert any("weather/old.py, line 1: " in p for p in collected.problems)
    assert any(
        "weather/latin.py, not UTF-8 text; save it as UTF-8" in p
        for p in collected.problems
    )
    assert any("weather/binary.py" in p for p in collected.problems)


def test_a_file_that_is_nested_too_deep_is_told(tmp_path: Path) -> None:
    write(tmp_path, a='def f(x): "Do."', b=f"x = {'-' * 20_000}1")
    collected = read(tmp_path)
    assert [tool.name for tool in collected.tools] == ["a.f"]
    assert any("b" in line for line in collected.problems)


def test_links_that_lead_in_a_circle_end(tmp_path: Path) -> None:
    package = write(tmp_path / "weather", __init__='def rain(city): "Say it."')
    (package / "again").symlink_to(package)
    assert [tool.name for tool in read(package).tools] == ["weather.rain"]


def test_what_is_no_folder_of_source_is_told(tmp_path: Path) -> None:
    write(tmp_path / "empty")
    write(tmp_path / "bare", __init__="def f(x): ...")
    write(tmp_path / "broken", __init__="def f(:")
    (tmp_path / "file.py").write_text("")
    for name, said in (
        ("missing", "there is no such folder"),
        ("file.py", "is no folder"),
        ("empty", "has no Python package"),
        ("bare", "no public functions or classes with a docstring"),
        ("broken", "line 1: invalid syntax"),
    ):
        with pytest.raises(InputError, match=said):
            read(tmp_path / name)


@pytest.mark.parametrize("given", [{}, {"package": "numpy", "folder": "src"}])
def test_a_package_or_a_folder_is_given_and_not_both(given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="give `package`"):
        PythonSource.model_validate(given)


def test_a_change_of_a_file_is_another_content(tmp_path: Path) -> None:
    package = write(tmp_path / "weather", __init__='def rain(city): "Say it."')
    kind, config = SOURCES.find("python", ""), PythonSource(folder=package)
    first = kind.version(config)
    assert kind.version(config) == first
    write(package, more="")
    assert kind.version(config) != first


@given(st.text(alphabet=" \n\t:()[]{}'\"\\#@=,.defclassxy0é*", max_size=60))
def test_any_text_is_read_or_named(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    folder = tmp_path_factory.mktemp("any") / "weather"
    folder.mkdir()
    (folder / "__init__.py").write_text('def rain(city): "Say if it rains."')
    (folder / "other.py").write_text(text, encoding="utf-8")
    collected = read(folder)
    assert "weather.rain" in {tool.name for tool in collected.tools}
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        assert any("weather/other.py" in line for line in collected.problems)


def test_an_argument_of_an_enumeration_has_its_values_as_choices(
    tmp_path: Path,
) -> None:
    package = write(
        tmp_path / "shop",
        __init__="from .size import Size\nfrom .parcels import send, sort",
        size="import enum\nclass Size(enum.Enum):\n    SMALL = 'small'\n    LARGE = 'large'\n"
        "class Key(enum.Enum):\n    A = enum.auto()\n",
        parcels="from .size import Key, Size\n"
        "def send(size: Size, others: list[Size] | None = None): 'Send a parcel.'\n"
        "def sort(by: Key, last: 'Size' = Size.SMALL): 'Sort them.'\n",
    )
    tools = {tool.name: tool.parameters["properties"] for tool in read(package).tools}
    choices = {"type": "string", "enum": ["small", "large"]}
    assert tools["shop.send"] == {
        "size": choices,
        "others": {"anyOf": [{"type": "array", "items": choices}, {"type": "null"}]},
    }
    assert tools["shop.sort"]["by"] == {"format": "Key"}
    assert tools["shop.sort"]["last"] == choices


def test_an_argument_of_a_record_has_its_properties(tmp_path: Path) -> None:
    package = write(
        tmp_path / "shop",
        __init__="from .orders import place",
        models="from dataclasses import dataclass, field\n"
        "from typing import ClassVar\n"
        "from pydantic import BaseModel, Field\n"
        "class Named(BaseModel):\n    name: str = Field(description='Its name,' ' as everybody calls it, and as it stands in the catalogue.')\n"
        "class Part(Named):\n"
        "    count: int = Field(1, ge=0)\n    parts: list[Part] = Field(default_factory=list)\n"
        "    plural: ClassVar[str] = 'parts'\n    _seen = 0\n"
        "@dataclass\nclass Place:\n    street: str\n    tags: list[str] = field(default_factory=list)\n"
        "    floor: int | None = None\n",
        orders="from . import models\nfrom .models import Part\n"
        "def place(first: Part, *, more: list[Part] = (), at: models.Place | None = None):\n"
        "    'Place an order.'\n",
    )
    [tool] = read(package).tools
    part = {"$ref": "#/$defs/shop.models.Part"}
    assert tool.parameters == {
        "type": "object",
        "properties": {
            "first": part,
            "more": {"type": "array", "items": part, "default": []},
            "at": {"anyOf": [{"$ref": "#/$defs/shop.models.Place"}, {"type": "null"}]},
        },
        "required": ["first"],
        "$defs": {
            "shop.models.Part": {
                "type": "object",
                "properties": {
                    "name": {
                        "type": "string",
                        "description": "Its name, as everybody calls it, and as it stands in the "
                        "catalogue.",
                    },
                    "count": {"type": "integer", "default": 1},
                    "parts": {"type": "array", "items": part},
                },
                "required": ["name"],
            },
            "shop.models.Place": {
                "type": "object",
                "properties": {
                    "street": {"type": "string"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "floor": {"type": ["integer", "null"]},
                },
                "required": ["street"],
            },
        },
    }
