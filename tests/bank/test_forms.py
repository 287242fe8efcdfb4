"""Tools written in the forms of others, of which some refuse much of JSON Schema, and read back."""

import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.corpus_files import CORPUS, check_expected
from toolbank.bank.function_reader import parse_tool
from toolbank.bank.function_writer import FORMS, restore_arguments, write_function
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


@pytest.mark.parametrize("form", FORMS)
@given(tools)
def test_a_tool_comes_back_as_it_went_out(form, tool):
    written, cut = write_function(tool, form)
    assert json.loads(json.dumps(written)) == written
    assert cut == ""
    assert parse_tool(written) == tool


@given(tools, st.text(min_size=1), st.dictionaries(names, st.booleans()))
def test_mcp_has_title_hints_and_what_a_tool_gives(tool, title, hints):
    more = {"title": title, "annotations": hints, "output_schema": tool.parameters}
    tool = tool.model_copy(update=more)
    written, _ = write_function(tool, "mcp")
    assert parse_tool(written) == tool


TOOLS = [Tool(**tool) for tool in json.loads((CORPUS / "forms/tools.json").read_text())]


@pytest.mark.parametrize("form", FORMS)
def test_tools_are_written_as_expected(form, update_corpus):
    before = [tool.model_dump() for tool in TOOLS]
    written = {tool.name: write_function(tool, form) for tool in TOOLS}
    assert [tool.model_dump() for tool in TOOLS] == before
    check_expected(CORPUS / f"forms/{form}.json", written, update=update_corpus)


def test_a_schema_in_which_all_refer_to_all_stays_of_a_size_to_be_sent():
    parts = {f"p{n}": {"$ref": f"#/$defs/E{n}"} for n in range(40)}
    whole = {"type": "object", "properties": parts}
    defs = {f"E{n}": whole for n in range(40)}
    tool = Tool(name="ring", parameters={**whole, "$defs": defs})
    written, cut = write_function(tool, "openai")
    assert len(json.dumps(written)) < 3_000_000
    assert "E39" in cut


def test_gemini_and_bfcl_names_of_types_are_read():
    item = {"type": "ARRAY", "items": {"type": "STRING"}}
    parameters = {"type": "dict", "properties": {"at": {"type": "float"}, "tags": item}}
    tool = parse_tool({"name": "find", "parameters": parameters})
    tags = {"type": "array", "items": {"type": "string"}}
    properties = {"at": {"type": "number"}, "tags": tags}
    assert tool.parameters == {"type": "object", "properties": properties}


def test_arguments_of_renamed_parameters_get_their_own_names_back():
    [tool] = [tool for tool in TOOLS if tool.name == "odd-names"]
    written, _ = write_function(tool, "anthropic")
    names = written["input_schema"]["properties"]
    given_ = dict.fromkeys(names, 1) | {"made up": 2}
    own = dict.fromkeys(tool.parameters["properties"], 1) | {"made up": 2}
    assert restore_arguments(tool, given_) == own


@pytest.mark.parametrize("form", FORMS)
@given(st.text("ab \n-", max_size=20).map(str.strip))
def test_a_description_keeps_its_lines(form, text):
    written, _ = write_function(parse_tool({"name": "a", "description": text}), form)
    assert written.get("function", written)["description"] == text


TYPES = ["string", "object", "array", "null", "integer", "boolean", "number"]
POINTERS = ["#", "#/$defs/a", "#/properties/a", "#/definitions/a", "http://x/y"]
KEYS = st.sampled_from(["a", "b", "$ref", "type", "enum"])
VALUES = st.none() | st.integers() | st.text(max_size=2) | st.booleans()


def schemas_of(inner):
    several = st.lists(inner, min_size=1, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(TYPES)
            | st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True),
            "properties": st.dictionaries(KEYS, inner, max_size=3),
            "items": inner,
            "allOf": several,
            "anyOf": several,
            "oneOf": several,
            "not": inner,
            "required": st.lists(KEYS, unique=True, max_size=2),
            "enum": st.lists(VALUES, max_size=3),
            "const": VALUES,
            "$ref": st.sampled_from(POINTERS),
            "$defs": st.dictionaries(KEYS, inner, max_size=2),
            "format": st.sampled_from(["uri", "int32"]),
            "nullable": st.booleans(),
        },
    )


LEAVES = st.booleans() | st.just({"type": "string"})
ANY = schemas_of(st.recursive(LEAVES, schemas_of, max_leaves=8))


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(ANY)
def test_what_is_written_is_what_the_apis_take(schema):
    schema = {"properties": {}, **schema, "type": "object"}
    before = json.dumps(schema)
    tool = Tool(name="a", parameters=schema)
    gemini, _ = write_function(tool, "gemini")
    check_gemini(gemini.get("parameters", {"type": "OBJECT"}))
    written = write_function(tool, "anthropic")[0]["input_schema"]
    assert written["type"] == "object" and isinstance(written["properties"], dict)
    assert not {"allOf", "anyOf", "oneOf", "not", "enum", "$ref"} & written.keys()
    assert all(re.fullmatch(r"[\w.-]{1,64}", name) for name in written["properties"])
    wanted = write_function(tool, "openai")[0]["function"]["parameters"]
    assert len(wanted["properties"]) == len(written["properties"])
    assert json.dumps(schema) == before


def check_gemini(schema):
    """What Gemini's API refuses, by its messages."""
    if "anyOf" in schema:
        assert schema.keys() == {"anyOf"}
        for part in schema["anyOf"]:
            check_gemini(part)
        return
    assert isinstance(schema["type"], str) and schema["type"].isupper()
    assert not {"$ref", "$defs", "allOf", "oneOf", "const", "not"} & schema.keys()
    assert schema.get("format") != "uri"
    if "enum" in schema:
        assert schema["type"] == "STRING" and all(schema["enum"])
    if schema["type"] == "ARRAY":
        check_gemini(schema["items"])
    properties = schema.get("properties", {})
    assert set(schema.get("required", ())) <= properties.keys()
    for one in properties.values():
        check_gemini(one)
