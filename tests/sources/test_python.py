import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.sources.packages import MakePackage
from toolbank.bank.records import Tool
from toolbank.sources.python.package import read_package
from toolbank.sources.python.settings import PythonSource, package_version


def read(package: str, **options: object) -> dict[str, Tool]:
    tools = read_package(
        PythonSource.model_validate({"package": package, **options})
    ).tools
    return {tool.name: tool for tool in tools}


def test_all_says_what_is_public(make_package: MakePackage) -> None:
    package = make_package(
        {
            "__init__.py": """
            __all__ = ["shown", "LIMIT"]
            LIMIT = 3
            def shown(): "Shown."
            def hidden(): "Not in __all__."
            """
        }
    )
    assert list(read(package)) == [f"{package}.shown"]


def test_without_all_what_is_defined_here_and_not_private_is_public(
    make_package: MakePackage,
) -> None:
    package = make_package(
        {
            "__init__.py": """
            from json import dumps
            from pathlib import Path
            from PKG._inner import offered
            def here(): "Here."
            def _private(): "Private."
            """,
            "_inner.py": 'def offered(): "Offered at the top."',
            "deep/__init__.py": "",
            "deep/part.py": """
            from PKG import here
            def below(): "Below."
            """,
            "tests/__init__.py": 'def test_it(): "A test."',
        }
    )
    assert list(read(package)) == [
        f"{package}.deep.part.below",
        f"{package}.here",
        f"{package}.offered",
    ]


def test_two_names_of_one_object_are_one_tool_with_an_alias(
    make_package: MakePackage,
) -> None:
    package = make_package(
        {
            "__init__.py": """
            from PKG.deep import total as deep_total
            __all__ = ["a_total", "total", "deep", "deep_total"]
            def total(): "Sum."
            a_total = total
            """,
            "deep.py": 'def total(): "Deep sum."',
        }
    )
    tools = read(package)
    assert tools[f"{package}.total"].aliases == (f"{package}.a_total",)
    assert tools[f"{package}.deep_total"].aliases == (f"{package}.deep.total",)


def test_classes_callables_and_indexing_objects_are_tools_and_data_is_not(
    make_package: MakePackage,
) -> None:
    package = make_package(
        {
            "__init__.py": '''
            """A package."""
            class Slicer:
                """Makes slices."""
                def __getitem__(self, key): return key
            class Grade(int):
                """A number."""
            class Runner:
                """Runs."""
                def __init__(self, speed): pass
                def __call__(self, x): raise SystemExit("a tool was called")
            class Plain: pass
            slicer = Slicer()
            named = Runner(1)
            named.__name__ = "named"
            runner = Runner(1)
            RATES = {"a": 1}
            ''',
            "words.py": '"""Words about words."""',
        }
    )
    kinds = ["function", "class", "object", "module"]
    found = {
        name.removeprefix(f"{package}."): tool.kind
        for name, tool in read(package, kinds=kinds).items()
    }
    assert found == {
        "Runner": "class",
        "named": "function",
        "slicer": "object",
        "words": "module",
    }
    assert [*read(package)] == [f"{package}.Runner", f"{package}.named"]


def test_modules_that_all_names_are_tools_if_documented(
    make_package: MakePackage,
) -> None:
    package = make_package(
        {
            "__init__.py": '__all__ = ["said", "unsaid"]',
            "said.py": '"""Words about words."""',
            "unsaid.py": 'def inside(): "Inside."',
            "left.py": 'def left(): "Not named by __all__."',
        }
    )
    kinds = ("function", "module")
    read_back = read_package(PythonSource(package=package, kinds=kinds))
    assert {tool.name: tool.kind for tool in read_back.tools} == {
        f"{package}.said": "module",
        f"{package}.unsaid.inside": "function",
    }
    assert read_back.info["left_out"] == {
        "sub-module that __all__ does not name": 1,
        "without documentation": 1,
    }
    assert read_back.info["left_out_examples"]["without documentation"] == [
        f"{package}.unsaid"
    ]


def test_excluded_modules_go_with_all_that_is_in_them(
    make_package: MakePackage,
) -> None:
    package = make_package(
        {
            "__init__.py": '"""Top."""\ndef kept(): "Kept."',
            "out.py": '"""Out."""\ndef gone(): "Gone."',
            "shell/__init__.py": '"""Shell."""',
            "shell/core.py": 'def gone_too(): "Gone too."',
        }
    )
    exclude = [f"{package}.out", f"{package}.shell.*"]
    assert list(read(package, exclude=exclude)) == [f"{package}.kept"]


def test_a_crawlers_file_of_that_name_gives_the_scope_unless_the_recipe_does(
    make_package: MakePackage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = make_package(
        {
            "__init__.py": '"""Top."""\nfrom . import near, far\ndef kept(): "Kept."',
            "near.py": '"""Near."""\ndef kept_too(): "Kept."',
            "far.py": '"""Far."""\ndef gone(): "Gone."',
        }
    )
    (tmp_path / "crawlers").mkdir()
    (tmp_path / "crawlers" / f"{package}.yaml").write_text(
        f"base_url: http://127.0.0.1/\nobjects:\n  roles: [function]\n"
        f"  parents: [{package}, {package}.near]\n  exclude: [{package}.far]\n"
    )
    monkeypatch.chdir(tmp_path)
    assert list(read(package)) == [f"{package}.kept", f"{package}.near.kept_too"]
    assert f"{package}.far.gone" in read(package, exclude=[])


def test_parameters_join_signature_and_docstring(make_package: MakePackage) -> None:
    package = make_package(
        {
            "__init__.py": '''
            def fill(values, /, how="mean", *, limit: int | None = None, **rest):
                """Fill gaps.

                Parameters
                ----------
                values : array_like
                    With gaps.
                how : {'mean', 'zero'}, optional
                    What to fill in.
                """
            '''
        }
    )
    tool = read(package)[f"{package}.fill"]
    assert tool.parameters == {
        "type": "object",
        "properties": {
            "values": {
                "type": "array",
                "format": "array_like",
                "description": "With gaps.",
            },
            "how": {
                "type": "string",
                "enum": ["mean", "zero"],
                "default": "mean",
                "description": "What to fill in.",
            },
            "limit": {"type": ["integer", "null"]},
            "rest": {"type": "object"},
        },
        "required": ["values"],
    }
    assert tool.signature == (
        f"{package}.fill(values, /, how='mean', *, limit: int | None = None, **rest)"
    )


def test_a_method_belongs_to_the_first_public_class_that_has_it(
    make_package: MakePackage,
) -> None:
    package = make_package(
        {
            "__init__.py": '''
            from __future__ import annotations
            class _Hidden:
                def mixed_in(self): "From a base that is no tool."
            class Base(_Hidden):
                """Base."""
                def __init__(self, path): pass
                def shared(self, x: int) -> str: "Shared."
            class Child(Base):
                """Child."""
                def __init__(self, path): pass
                @property
                def size(self): "How large."
                @classmethod
                def build(cls, path): "Make one."
                def silent(self): pass
                def _private(self): "Private."
            '''
        }
    )
    classes = [f"{package}.Base", f"{package}.Child"]
    assert list(read(package, methods=False)) == classes
    tools = read(package)
    assert {name.removeprefix(f"{package}."): tools[name].kind for name in tools} == {
        "Base": "class",
        "Base.mixed_in": "method",
        "Base.shared": "method",
        "Child": "class",
        "Child.build": "method",
    }
    properties = read(package, kinds=["property"])
    assert {name: tool.kind for name, tool in properties.items()} == {
        f"{package}.Child.size": "property"
    }
    shared = tools[f"{package}.Base.shared"]
    assert shared.signature == f"{package}.Base.shared(x: int) -> str"
    assert list(shared.parameters["properties"]) == ["x"]


def test_deprecation_is_told_from_docstring_access_and_decorator(
    make_package: MakePackage,
) -> None:
    package = make_package(
        {
            "__init__.py": '''
            import warnings
            __all__ = ["by_words", "by_access", "by_mark", "by_call", "at_times", "current"]
            def by_words():
                """Old.

                .. deprecated:: 2.0
                   Use :func:`current`.
                """
            def by_mark(): "Old."
            by_mark.__deprecated__ = "Use current."
            def by_call(x):
                "Old."
                warnings.warn("by_call is old", DeprecationWarning, stacklevel=2)
                return x
            def at_times(x, old=None):
                "New."
                if old is not None:
                    warnings.warn("old is old", DeprecationWarning, stacklevel=2)
                return x
            def current():
                """New.

                Parameters
                ----------
                x : int
                    A number.

                    .. deprecated:: 1.0
                """
            def __getattr__(name):
                if name != "by_access":
                    raise AttributeError(name)
                warnings.warn("by_access goes away", DeprecationWarning, stacklevel=2)
                def by_access(): "Old."
                return by_access
            '''
        }
    )
    deprecated = {
        name.rpartition(".")[2]: tool.deprecated for name, tool in read(package).items()
    }
    assert deprecated == {
        "by_words": "2.0 Use current.",
        "by_access": "by_access goes away",
        "by_mark": "Use current.",
        "by_call": "by_call is old",
        "at_times": "",
        "current": "",
    }


def test_one_broken_part_is_counted_and_the_rest_is_read(
    make_package: MakePackage,
) -> None:
    package = make_package(
        {
            "__init__.py": 'def good(): "Good."',
            "broken.py": "import a_package_that_is_not_there",
            "script.py": "raise SystemExit(3)",
            "wild.py": "class Wild(BaseException): pass\nraise Wild",
        }
    )
    read_back = read_package(PythonSource(package=package))
    assert [tool.name for tool in read_back.tools] == [f"{package}.good"]
    assert read_back.info["left_out"] == {
        "can't be imported (ModuleNotFoundError)": 1,
        "can't be imported (SystemExit)": 1,
        "can't be imported (Wild)": 1,
    }


def test_an_object_that_can_not_be_looked_at_costs_only_itself(
    make_package: MakePackage,
) -> None:
    package = make_package(
        {
            "__init__.py": """
            class Proxy:
                @property
                def __class__(self): raise RuntimeError("nothing is bound yet")
            current = Proxy()
            def good(): "Good."
            """
        }
    )
    read_back = read_package(PythonSource(package=package))
    assert [tool.name for tool in read_back.tools] == [f"{package}.good"]
    assert read_back.problems == (
        f"python:{package}: 1 left out, can't be read (RuntimeError): {package}.current",
    )


def test_the_standard_library_can_be_read() -> None:
    tools = read("json")
    assert {"json.dumps", "json.loads", "json.JSONDecoder"} <= tools.keys()
    version = ".".join(map(str, sys.version_info[:3]))
    assert tools["json.dumps"].source == f"python:json=={version}"


def test_a_package_has_the_version_of_what_brings_it() -> None:
    for package, brought_by in metadata.packages_distributions().items():
        if package.isidentifier() and package.lower() != brought_by[0].lower():
            version = metadata.version(brought_by[0])
            assert package_version(package) == f"{package}=={version}"


def test_every_process_reads_the_same(make_package: MakePackage) -> None:
    script = (
        "from toolbank.sources.python.settings import PythonSource\n"
        "from toolbank.sources.python.package import read_package\n"
        "print([t.model_dump() for t in read_package(PythonSource(package='argparse')).tools])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            check=True,
            capture_output=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_choices_and_properties_of_annotated_classes_are_known(
    make_package: MakePackage,
) -> None:
    package = make_package(
        {
            "__init__.py": """
            from __future__ import annotations
            import enum
            from dataclasses import dataclass
            from typing import Literal
            from pydantic import BaseModel

            class Size(enum.Enum):
                SMALL = "small"
                LARGE = "large"

            class Address(BaseModel):
                street: str
                zip: int | None = None

            @dataclass
            class Parcel:
                to: Address
                size: Size = Size.SMALL

            def send(parcel: Parcel, size: Size | None = None, how: Literal["air", "sea"] = "sea",
                     later: object = None):
                "Send a parcel."

            def odd(one: Missing, size: Size = Size.LARGE):
                "Do what nobody knows."
            """
        }
    )
    tools = read(package)
    parameters = tools[f"{package}.send"].parameters
    properties, shared = parameters["properties"], parameters["$defs"]
    assert parameters["required"] == ["parcel"]
    assert shared["Size"]["enum"] == ["small", "large"]
    assert shared["Address"]["required"] == ["street"]
    assert properties["how"]["enum"] == ["air", "sea"]
    check = Draft202012Validator(parameters)
    assert check.is_valid({"parcel": {"to": {"street": "Elm"}}, "size": "small"})
    assert not check.is_valid({"parcel": {"to": {"street": "Elm"}}, "size": "huge"})
    assert not check.is_valid({"parcel": {"to": {"zip": 3}}})
    assert properties["later"]["format"] == "object"
    odd = tools[f"{package}.odd"].parameters["properties"]
    assert odd["size"]["format"] == "Size"
