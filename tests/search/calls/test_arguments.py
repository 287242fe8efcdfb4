"""A schema from a pack can't hold the server up, nor get out of being checked by a fault."""

import pytest

from toolbank.bank.records import Tool
from toolbank.search.calls import CallError
from toolbank.search.calls.caller import check_arguments

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
# Takes longer than the universe, should it be tried.
EVIL, VICTIM = "^(a+)+$", "a" * 60 + "!"


def check(schema, arguments):
    check_arguments(Tool(name="tool", parameters=schema), arguments)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"x": {"pattern": EVIL}}},
        {"properties": {"x": {"$schema": DRAFT_7, "pattern": EVIL}}},
        {"$schema": DRAFT_7, "properties": {"x": {"pattern": EVIL}}},
        {"patternProperties": {EVIL: {}}},
        {"patternProperties": {EVIL: {}}, "additionalProperties": False},
        {"patternProperties": {EVIL: {}}, "unevaluatedProperties": False},
        {"allOf": [{"patternProperties": {EVIL: {}}}], "unevaluatedProperties": False},
        {"propertyNames": {"pattern": EVIL}},
        {"properties": {"many": {"uniqueItems": True}}},
    ],
)
def test_no_keyword_whose_work_is_unbounded_is_run(schema):
    check(schema, {"x": VICTIM, VICTIM: 1, "many": [{"a": n} for n in range(5_000)]})


DOUBLING = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/d0", "$defs": {**DOUBLING, "d40": {"type": "object"}}},
        {"type": "strin"},
        {"properties": []},
        {"properties": {"x": "string"}},
        {"properties": {"x": {"$schema": []}}},
        {"required": 1},
        {"additionalProperties": {"$ref": "#"}, "$ref": "#"},
        {"$ref": "#/nowhere"},
        {"$ref": "\ud800"},
        {"multipleOf": 0, "properties": {"x": {"multipleOf": 0}}},
    ],
)
def test_a_schema_that_is_invalid_or_too_expensive_is_named(schema):
    with pytest.raises(CallError, match="tool: its schema"):
        check(schema, {"x": 1})


@pytest.mark.parametrize("value", ["\ud800", float("nan")])
def test_arguments_that_cannot_be_sent_are_refused(value):
    with pytest.raises(CallError, match="JSON in UTF-8"):
        check({}, {"x": value})


def test_the_rest_of_a_schema_is_still_checked():
    text = {"type": "string"}
    schema = {
        "properties": {"x": {"pattern": "^b", "type": "string", "maxLength": 3}},
        "additionalProperties": False,
    }
    # Properties may be called as keywords are.
    schema["properties"] |= {"$schema": text, "pattern": text}
    check(schema, {"x": "a"})
    for arguments, said in (
        ({"x": "aaaa"}, "at x: 'aaaa' is too long"),
        ({"y": 1}, "Additional properties"),
        ({"$schema": 1}, r"at \$schema: 1 is not of type"),
        ({"pattern": 1}, "at pattern: 1 is not of type"),
    ):
        with pytest.raises(CallError, match=said):
            check(schema, arguments)
