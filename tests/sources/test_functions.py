"""Lists of functions, in every form and file in which they come."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolbank.bank.function_reader import find_functions, read_entry
from toolbank.sources import SOURCES
from toolbank.sources.functions import FunctionsSource
from toolbank.sources.kind import Collected
from toolbank.system.errors import InputError

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
PLAIN = {"name": "rain", "description": "Say if it rains.", "parameters": SCHEMA}
TEXT = {"name": "rain", "description": "Say if it rains."}


def read(path: Path) -> Collected:
    kind = SOURCES.find("functions", "")
    return kind.read(FunctionsSource(path=path), path.parent)


def write(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(
    "content",
    [
        [PLAIN],
        PLAIN,
        [{"type": "function", "function": PLAIN}],
        [{"type": "function", **PLAIN}],
        {"tools": [{**TEXT, "inputSchema": SCHEMA}]},
        {"model": "m", "tools": [{**TEXT, "input_schema": SCHEMA}]},
        {"functions": [PLAIN]},
        [{"functionDeclarations": [PLAIN]}],
        {
            "tools": [
                {"function_declarations": [{**TEXT, "parametersJsonSchema": SCHEMA}]}
            ]
        },
        {"rain": {"description": "Say if it rains.", "parameters": SCHEMA}},
        [{"id": "simple_0", "question": [], "function": [PLAIN]}],
    ],
)
def test_every_form_gives_the_same_tool(tmp_path: Path, content: Any) -> None:
    (tool,) = read(write(tmp_path / "tools.json", content)).tools
    assert (tool.name, tool.summary) == ("rain", "Say if it rains.")
    assert tool.parameters == SCHEMA
    assert tool.source == "functions:tools.json"


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("tools.json", "[{TWICE}]", "tools.json#/0/description"),
        (
            "tools.jsonl",
            '{"name": "sun", "description": "x"}\n{TWICE}',
            "line 2/description",
        ),
        (
            "tools.csv",
            'name,description,parameters\nrain,It rains.,"{""type"": ""object"", ""type"": ""object""}"',
            "row 1/type",
        ),
    ],
)
def test_of_a_key_that_is_given_twice_the_last_counts_with_a_note(
    tmp_path: Path, name: str, text: str, place: str
) -> None:
    twice = '{"name": "rain", "description": "No.", "description": "It rains."}'
    file = tmp_path / name
    file.write_text(text.replace("{TWICE}", twice))
    collected = read(file)
    assert collected.tools[0].summary == "It rains."
    (note,) = collected.notes
    assert note.startswith(
        f"functions:{name}: keys that an object gives more than once"
    )
    assert note.endswith(place)


def test_toolbench_tools_are_read(tmp_path: Path) -> None:
    content = {
        "tool_name": "Weather",
        "category": "Data",
        "api_list": [
            {
                "name": "Rain",
                "description": "Say if it rains.",
                "required_parameters": [{"name": "city", "type": "STRING"}],
                "optional_parameters": [{"name": "days", "type": "NUMBER"}],
            }
        ],
    }
    (tool,) = read(write(tmp_path / "weather.json", content)).tools
    assert (tool.name, tool.tags) == ("Weather::Rain", ("Data",))
    assert list(tool.parameters["properties"]) == ["city", "days"]
    assert tool.parameters["required"] == ["city"]


def test_toolbank_descriptions_by_name_are_read(tmp_path: Path) -> None:
    content = {"a.b": {"description": "Do it."}, "c": "Do that."}
    tools = read(write(tmp_path / "tools.json", content)).tools
    assert [(tool.name, tool.summary) for tool in tools] == [
        ("a.b", "Do it."),
        ("c", "Do that."),
    ]


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_tables_are_read(tmp_path: Path, ending: str) -> None:
    table = pl.DataFrame(
        {
            "name": ["rain", "007", None],
            "description": ["Say if it rains.", None, "Of nothing."],
            "parameters": [json.dumps(SCHEMA), "{broken", None],
        }
    )
    path = tmp_path / f"tools.{ending}"
    if ending == "parquet":
        table.write_parquet(path)
    else:
        table.write_csv(path, separator="\t" if ending == "tsv" else ",")
    collected = read(path)
    assert [tool.name for tool in collected.tools] == ["rain"]
    assert collected.tools[0].parameters == SCHEMA
    assert collected.info["left_out"] == {"it can't be read as a function": 2}
    assert any("row 2" in line for line in collected.problems)


def test_what_can_not_be_read_is_counted_and_named(tmp_path: Path) -> None:
    path = tmp_path / "tools.jsonl"
    lines = [
        json.dumps(PLAIN),
        "{broken",
        "",
        json.dumps({"description": "no name"}),
        json.dumps(PLAIN),
        json.dumps({**PLAIN, "description": "Something else."}),
        json.dumps(
            {
                "name": "odd",
                "parameters": {"type": "object", "properties": {"a": {"type": 3}}},
            }
        ),
    ]
    path.write_text("\n".join(lines))
    collected = read(path)
    assert [tool.name for tool in collected.tools] == ["odd", "rain"]
    assert collected.info["left_out"] == {
        "it can't be read as a function": 2,
        "it is listed twice, with another text; the first counts": 1,
        "it is listed twice, with the same text": 1,
    }
    assert [line.split(":")[0].rpartition(", ")[2] for line in collected.problems] == [
        "line 2",
        "line 4",
    ]
    assert any("such as odd; mended" in note for note in collected.notes)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("int", "integer"),
        ("str", "string"),
        ("List", "array"),
        ("Bool", "boolean"),
        (["int", "null"], ["integer", "null"]),
    ],
)
def test_types_as_languages_name_them_and_properties_alone_are_read(
    tmp_path: Path, said: Any, meant: Any
) -> None:
    properties = {"days": {"type": said, "default": 1}}
    for parameters in (properties, {"type": "object", "properties": properties}):
        path = write(tmp_path / "list.json", [{**PLAIN, "parameters": parameters}])
        [tool] = read(path).tools
        assert tool.parameters == {
            "type": "object",
            "properties": {"days": {"type": meant, "default": 1}},
        }


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_table_is_read_as_programs_of_offices_write_it(
    tmp_path: Path, separator: str
) -> None:
    path = tmp_path / "list.csv"
    rows = [["Name", "Description", "Note"], ["rain", "Say if it rains.", "x"]]
    text = "\r\n".join(separator.join(row) for row in rows)
    path.write_bytes(text.encode("utf-8-sig"))
    [tool] = read(path).tools
    assert (tool.name, tool.summary) == ("rain", "Say if it rains.")
    for encoding in ("utf-16", "latin-1"):
        path.write_bytes((text + "é").encode(encoding))
        with pytest.raises(InputError, match="in UTF-8"):
            read(path)


def test_lines_are_read_whatever_the_file_is_called(tmp_path: Path) -> None:
    path = tmp_path / "BFCL_v3_simple.json"
    lines = [{"id": str(n), "function": [{**PLAIN, "name": f"f{n}"}]} for n in (1, 2)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [tool.name for tool in read(path).tools] == ["f1", "f2"]


def test_one_that_is_nested_too_deep_is_left_out_alone(tmp_path: Path) -> None:
    deep = '{"items":' * 600 + "{}" + "}" * 600
    row = '{"name": "deep", "parameters": {"type": "object", "properties": {"a": %s}}}'
    path = tmp_path / "tools.jsonl"
    path.write_text(f"{json.dumps(PLAIN)}\n{row % deep}\nfoo: bar\n")
    collected = read(path)
    assert [tool.name for tool in collected.tools] == ["rain"]
    assert collected.info["left_out"] == {"it can't be read as a function": 2}


@pytest.mark.parametrize(
    "content", ["[]", "{}", "[1, 2]", '{"openapi": "3.1.0", "paths": {}}', "words", ""]
)
def test_what_lists_no_function_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "tools.json"
    path.write_text(content)
    with pytest.raises(InputError, match=r"tools\.json"):
        read(path)


def test_a_table_without_the_columns_names_them(tmp_path: Path) -> None:
    path = tmp_path / "tools.csv"
    path.write_text("tool,about\na,b\n")
    with pytest.raises(InputError, match="no column description and none name"):
        read(path)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["name", "description", "parameters", "function", "tools", "type"]
            )
            | st.text(max_size=3),
            inner,
            max_size=3,
        )
    ),
    max_leaves=15,
)


@settings(max_examples=300)
@given(values)
def test_any_json_is_read_to_tools_or_refused(content: Any) -> None:
    for pointer, entry in find_functions(content):
        assert pointer.startswith("/") or pointer == ""
        try:
            tool = read_entry(entry)
        except ValueError as error:
            assert str(error)
        else:
            assert tool.name.strip()
            assert isinstance(tool.parameters, dict)
