"""Tools written in the forms of others, and read back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbank.bank.function_reader import parse_tool
from toolbank.bank.function_writer import (
    FORMS,
    inline_references,
    is_circular,
    restore_arguments,
    write_function,
)
from toolbank.bank.records import Tool

words = st.text("abc -é", min_size=1, max_size=12).map(str.strip).filter(bool)
names = st.text("abcdefgh_", min_size=1, max_size=12)
leaves = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "number", "boolean", "integer"])},
    optional={"description": words},
)
schemas = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda one: {"type": "array", "items": one}, inner),
        st.builds(
            lambda fields: {"type": "object", "properties": fields},
            st.dictionaries(names, inner, min_size=1, max_size=3),
        ),
    ),
    max_leaves=5,
)
parameters = st.builds(
    lambda fields: {
        "type": "object",
        "properties": fields,
        "required": sorted(fields)[:1],
    },
    st.dictionaries(names, schemas, min_size=1, max_size=3),
)
tools = st.builds(
    Tool,
    name=names,
    summary=words.map(lambda text: " ".join(text.split())),
    description=st.just("") | words,
    parameters=parameters,
)

TREE: dict[str, Any] = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/Node"}},
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {
                "left": {"$ref": "#/$defs/Node"},
                "name": {"$ref": "#/$defs/Name"},
            },
        },
        "Name": {"type": "string"},
    },
}


@pytest.mark.parametrize("form", FORMS)
@given(tools)
def test_a_tool_comes_back_as_it_went_out(form: str, tool: Tool) -> None:
    written, cut = write_function(tool, form)
    assert json.loads(json.dumps(written)) == written
    assert cut == ""
    assert parse_tool(written) == tool


@given(tools, st.text(min_size=1), st.dictionaries(names, st.booleans()))
def test_mcp_has_title_hints_and_what_a_tool_gives(
    tool: Tool, title: str, hints: dict[str, bool]
) -> None:
    more = {"title": title, "annotations": hints, "output_schema": tool.parameters}
    tool = tool.model_copy(update=more)
    written, _ = write_function(tool, "mcp")
    assert parse_tool(written) == tool


def test_each_form_is_what_its_api_takes() -> None:
    tool = Tool(
        name="weather.today",
        summary="Tell the weather.",
        parameters={
            "type": "object",
            "properties": {
                "city": {"type": ["string", "null"]},
                "days": {"enum": [1, 2], "exclusiveMinimum": 0},
            },
        },
    )
    assert write_function(tool, "anthropic")[0] == {
        "name": "weather_today",
        "description": "Tell the weather.",
        "input_schema": tool.parameters,
    }
    assert write_function(tool, "openai")[0]["function"]["name"] == "weather_today"
    written, cut = write_function(tool, "gemini")
    assert written["parameters"] == {
        "type": "OBJECT",
        "properties": {
            "city": {"type": "STRING", "nullable": True},
            "days": {"type": "INTEGER"},
        },
    }
    assert cut == "keys of JSON Schema: enum, exclusiveMinimum"
    assert "parameters" not in write_function(Tool(name="now"), "gemini")[0]


@pytest.mark.parametrize("form", ["openai", "anthropic", "gemini"])
def test_a_schema_that_refers_to_itself_ends_after_three_levels(form: str) -> None:
    written, cut = write_function(Tool(name="tree", parameters=TREE), form)
    text = json.dumps(written)
    assert "$ref" not in text and "$defs" not in text
    assert text.count('"left"') == 3
    assert "Node" in cut


def test_a_schema_in_which_all_refer_to_all_stays_of_a_size_to_be_sent() -> None:
    parts = {f"p{n}": {"$ref": f"#/$defs/E{n}"} for n in range(40)}
    whole = {"type": "object", "properties": parts}
    defs = {f"E{n}": whole for n in range(40)}
    tool = Tool(name="ring", parameters={**whole, "$defs": defs})
    written, cut = write_function(tool, "openai")
    assert len(json.dumps(written)) < 3_000_000
    assert "E39" in cut


def test_mcp_keeps_references_and_so_does_a_schema_without_a_circle() -> None:
    tool = Tool(name="tree", parameters=TREE)
    assert write_function(tool, "mcp") == (
        {"name": "tree", "description": "", "inputSchema": TREE},
        "",
    )
    straight = {
        "type": "object",
        "properties": {"name": {"$ref": "#/$defs/Name"}},
        "$defs": {"Name": {"type": "string"}},
    }
    assert not is_circular(straight) and is_circular(TREE)
    written, _ = write_function(Tool(name="a", parameters=straight), "anthropic")
    assert written["input_schema"] == straight


@pytest.mark.parametrize("place", ["definitions", "$defs"])
def test_references_are_followed_wherever_they_lead_in_the_schema(place: str) -> None:
    node = {"type": "object", "properties": {"next": {"$ref": f"#/{place}/N~1x"}}}
    schema = {"type": "object", "properties": {"a": node}, place: {"N/x": node}}
    assert is_circular(schema)
    inlined, cut = inline_references(schema)
    assert "$ref" not in json.dumps(inlined) and cut.endswith("N~1x")
    itself = {"type": "object", "properties": {"again": {"$ref": "#"}}}
    assert is_circular(itself)
    assert json.dumps(inline_references(itself)[0]).count("again") == 4


def test_a_property_that_is_called_ref_is_a_property() -> None:
    schema = {"type": "object", "properties": {"$ref": {"type": "string"}}}
    assert inline_references(schema) == (schema, "")


def test_gemini_and_bfcl_names_of_types_are_read() -> None:
    tool = parse_tool(
        {
            "name": "find",
            "description": "Find it.",
            "parameters": {
                "type": "dict",
                "properties": {
                    "at": {"type": "float"},
                    "tags": {"type": "ARRAY", "items": {"type": "STRING"}},
                },
            },
        }
    )
    assert tool.parameters == {
        "type": "object",
        "properties": {
            "at": {"type": "number"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
    }


def test_gemini_gets_unions_formats_and_lists_as_it_takes_them() -> None:
    schema = {
        "type": "object",
        "properties": {
            "at": {"type": "string", "format": "uri"},
            "size": {
                "description": "How big.",
                "anyOf": [{"type": "integer"}, {"enum": ["all", ""]}, {"type": "null"}],
            },
            "pet": {"allOf": [{"$ref": "#/definitions/Pet"}], "description": "Whose."},
            "list": {"type": ["array", "null"]},
        },
        "required": ["at", "gone"],
        "definitions": {"Pet": {"type": "object", "properties": {"a": {}}}},
    }
    written, cut = write_function(Tool(name="a", parameters=schema), "gemini")
    said = {"description": "How big.", "nullable": True}
    assert written["parameters"] == {
        "type": "OBJECT",
        "properties": {
            "at": {"type": "STRING"},
            "size": {
                "anyOf": [
                    {"type": "INTEGER", **said},
                    {"type": "STRING", "enum": ["all"], **said},
                ]
            },
            "pet": {
                "type": "OBJECT",
                "properties": {"a": {"type": "STRING"}},
                "description": "Whose.",
            },
            "list": {
                "type": "ARRAY",
                "items": {"type": "STRING"},
                "nullable": True,
            },
        },
        "required": ["at"],
    }
    assert cut == "keys of JSON Schema: enum, format"


@pytest.mark.parametrize("form", ["openai", "anthropic"])
def test_a_combination_at_the_top_is_one_object(form: str) -> None:
    schema = {
        "allOf": [{"$ref": "#/$defs/Who"}],
        "anyOf": [{"properties": {"b": {}}, "required": ["b"]}, {"required": ["a"]}],
        "$defs": {"Who": {"properties": {"a": {}}, "required": ["a"]}},
    }
    written, cut = write_function(Tool(name="a", parameters=schema), form)
    written = written.get("function", written)
    assert written.get("parameters", written.get("input_schema")) == {
        "type": "object",
        "properties": {"b": {}, "a": {}},
        "required": ["a"],
        "$defs": schema["$defs"],
    }
    assert cut == "at the top: allOf, anyOf"


def test_references_by_any_pointer_are_followed() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    schema["properties"]["b"] = {"$ref": "#/properties/a"}
    assert not is_circular(schema)
    assert inline_references(schema)[0]["properties"]["b"] == {"type": "integer"}
    schema["properties"]["c"] = {"$ref": "#"}
    assert is_circular(schema)


@pytest.mark.parametrize("form", ["openai", "anthropic"])
def test_parameters_that_are_a_reference_are_an_object(form: str) -> None:
    who = {"type": "object", "properties": {"a": {"type": "string"}}}
    schema = {"$ref": "#/definitions/Who", "definitions": {"Who": who}}
    written, cut = write_function(Tool(name="a", parameters=schema), form)
    assert parse_tool(written).parameters == {**who, "definitions": {"Who": who}}
    assert cut == ""


def test_anthropic_gets_names_of_parameters_that_it_takes() -> None:
    schema = {
        "type": "object",
        "properties": {
            "filter[name]": {"type": "string"},
            "filter_name": {"type": "integer"},
            "$top": {"type": "object", "properties": {"a b": {}}},
            "é": {},
            "x" * 70: {},
        },
        "required": ["$top", "filter_name"],
        "dependentRequired": {"$top": ["filter[name]"]},
    }
    before = json.dumps(schema)
    tool = Tool(name="list", parameters=schema)
    written, cut = write_function(tool, "anthropic")
    names = ["filter_name_2", "filter_name", "top", "_", "x" * 64]
    assert list(written["input_schema"]["properties"]) == names
    assert written["input_schema"]["properties"]["top"] == schema["properties"]["$top"]
    assert written["input_schema"]["required"] == ["top", "filter_name"]
    assert written["input_schema"]["dependentRequired"] == {"top": ["filter_name_2"]}
    assert cut.startswith("renamed: filter[name] as filter_name_2, $top as top, ")
    asked = dict.fromkeys(names, 1) | {"made up": 2}
    own = dict.fromkeys(schema["properties"], 1) | {"made up": 2}
    assert restore_arguments(tool, asked) == own
    assert json.dumps(schema) == before
    assert write_function(tool, "openai")[1] == ""


@pytest.mark.parametrize("form", FORMS)
@given(st.text("ab \n-", max_size=20).map(str.strip))
def test_a_description_keeps_its_lines(form: str, text: str) -> None:
    written, _ = write_function(parse_tool({"name": "a", "description": text}), form)
    assert written.get("function", written)["description"] == text
