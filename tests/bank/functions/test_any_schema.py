"""Any schema of parameters, in the forms that refuse much of JSON Schema."""

import json
import re

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolbank.bank.function_writer import write_function
from toolbank.bank.records import Tool

TYPES = ["string", "object", "array", "null", "integer", "boolean", "number"]
POINTERS = ["#", "#/$defs/a", "#/properties/a", "#/definitions/a", "http://x/y"]
names = st.sampled_from(["a", "b", "$ref", "type", "enum"])
values = st.none() | st.integers() | st.text(max_size=2) | st.booleans()


def schemas_of(inner):
    several = st.lists(inner, min_size=1, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(TYPES)
            | st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True),
            "properties": st.dictionaries(names, inner, max_size=3),
            "items": inner,
            "allOf": several,
            "anyOf": several,
            "oneOf": several,
            "not": inner,
            "required": st.lists(names, unique=True, max_size=2),
            "enum": st.lists(values, max_size=3),
            "const": values,
            "$ref": st.sampled_from(POINTERS),
            "$defs": st.dictionaries(names, inner, max_size=2),
            "format": st.sampled_from(["uri", "int32"]),
            "nullable": st.booleans(),
        },
    )


schemas = schemas_of(
    st.recursive(st.booleans() | st.just({"type": "string"}), schemas_of, max_leaves=8)
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(schemas)
def test_what_is_written_is_what_the_apis_take(schema):
    schema = {"properties": {}, **schema, "type": "object"}
    before = json.dumps(schema)
    tool = Tool(name="a", parameters=schema)
    check_gemini(
        write_function(tool, "gemini")[0].get("parameters", {"type": "OBJECT"})
    )
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
