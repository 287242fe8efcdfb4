"""Tools written in the forms of others, and read back."""

import json

import pytest
from hypothesis import given
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
