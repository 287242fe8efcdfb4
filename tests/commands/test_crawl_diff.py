"""What a person reads of an API that moved between two crawls."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbank.bank.files import write_tools
from toolbank.bank.records import RaisedException, ReturnValue, Tool, VersionNote
from toolbank.commands.crawl import compare_crawls, compare_tools
from toolbank.system.errors import InputError
from toolbank.system.files import write_json


def tool(name, **fields):
    return Tool(name=name, kind="function", **{"summary": f"Does {name}.", **fields})


def takes(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


def returns(kind, description=""):
    return {"returns": (ReturnValue(type=kind, description=description),)}


def changes(old, new):
    found = compare_tools([old], [new])
    return (found.changed | found.reworded).get(old.name, ())


def test_tells_what_came_what_went_and_what_stayed():
    found = compare_tools([tool("a"), tool("b")], [tool("b"), tool("c")])
    assert found.describe().splitlines() == [
        "1 added, 1 removed, 0 now another name, 0 changed, 0 reworded, 1 the same.",
        "+ c: Does c.",
        "- a: Does a.",
    ]


def test_a_tool_that_became_another_name_is_not_removed():
    found = compare_tools([tool("a"), tool("b")], [tool("b", aliases=("a",))])
    assert (found.removed, found.renamed) == ((), {"a": "b"})
    assert found.changed == {"b": ("other names: none -> a",)}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            {"parameters": takes(x={"type": "integer"})},
            {"parameters": takes(("y",), x={"type": "number"}, y={})},
            ["parameter y: added, required", 'parameter x: type "integer" -> "number"'],
        ),
        (
            {"parameters": takes(("x",), x={}, y={})},
            {"parameters": takes(x={"description": "Words."})},
            [
                "parameter x: no longer required",
                "parameter y: removed",
                "words of parameters x",
            ],
        ),
        (
            {"parameters": takes(x={}, y={})},
            {"parameters": takes(y={}, x={})},
            ["parameters: in another order"],
        ),
        (
            {"parameters": takes(x={"type": "integer", "default": 1})},
            {"parameters": takes(x={"type": "integer"})},
            ["parameter x: default 1 -> none"],
        ),
        ({"signature": "f(x)"}, {"signature": "f(y)"}, ["signature: f(x) -> f(y)"]),
        (returns("int"), returns("float"), ["returns: int -> float"]),
        (returns("int"), returns("int", "More."), ["words of returns"]),
        (
            {},
            {"raises": (RaisedException(type="ValueError"),)},
            ["raises: none -> ValueError"],
        ),
        ({}, {"deprecated": "Use b."}, ["deprecated: none -> Use b."]),
        ({"deprecated": "Use b."}, {}, ["deprecated: Use b. -> none"]),
        ({"deprecated": "Use b."}, {"deprecated": "Use c."}, ["words of deprecated"]),
        (
            {},
            {"versions": (VersionNote(change="added", version="2.0", parameter="x"),)},
            ["added in 2.0 (x): "],
        ),
        (
            {"notes": "A."},
            {"notes": "B.", "examples": "C."},
            ["words of notes, examples"],
        ),
    ],
)
def test_every_change_is_told_by_what_it_means_to_a_caller(old, new, told):
    assert list(changes(tool("a", **old), tool("a", **new))) == told


def test_another_address_is_no_change():
    moved = {"url": "https://new.example/a", "source": "sphinx:x 2"}
    assert changes(tool("a"), tool("a", **moved)) == ()


NAMES = st.lists(st.text("abc", min_size=1, max_size=2), unique=True)


@given(NAMES, NAMES)
def test_every_tool_of_both_is_told_once(old, new):
    found = compare_tools([tool(name) for name in old], [tool(name) for name in new])
    gone = {tool.name for tool in found.removed} | found.renamed.keys()
    assert {tool.name for tool in found.added} == set(new) - set(old)
    assert gone == set(old) - set(new)
    assert len(found.changed | found.reworded) + found.same == len(set(old) & set(new))


def test_reads_crawls_runs_and_files_and_warns_of_lost_pages(tmp_path):
    old, new = tmp_path / "crawl", tmp_path / "run"
    write_tools(old / "tools.parquet", [tool("a")])
    write_json(old / "crawl.json", {"failed_pages": {"a": "gone", "b": "gone"}})
    write_json(new / "bank" / "crawl.json", {"sources": [{"failed_pages": "x"}, 3]})
    write_tools(new / "bank" / "tools.parquet", [tool("a"), tool("b")])
    told = compare_crawls(old, new)
    assert "crawl: pages that failed: 2." in told
    assert "1 added, 0 removed" in told
    assert "0 added" in compare_crawls(old, old / "tools.parquet")


def test_a_folder_without_tools_is_told(tmp_path):
    with pytest.raises(InputError, match=r"no tools\.parquet in it"):
        compare_crawls(tmp_path, tmp_path)
    with pytest.raises(InputError, match=r"no such crawl"):
        compare_crawls(tmp_path / "nowhere", tmp_path)
