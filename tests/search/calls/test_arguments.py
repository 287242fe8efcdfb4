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
    ],
)
def test_no_regular_expression_of_a_pack_is_run(schema):
    check(schema, {"x": VICTIM, VICTIM: 1})


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
    schema = {
        "properties": {"x": {"pattern": "^b", "type": "string", "maxLength": 3}},
        "additionalProperties": False,
    }
    check(schema, {"x": "a"})
    with pytest.raises(CallError, match="at x: 'aaaa' is too long"):
        check(schema, {"x": "aaaa"})
    with pytest.raises(CallError, match="Additional properties"):
        check(schema, {"y": 1})


def test_a_property_may_be_called_as_a_keyword_is():
    schema = {
        "properties": {"$schema": {"type": "string"}, "pattern": {"type": "string"}}
    }
    with pytest.raises(CallError, match=r"at \$schema: 1 is not of type"):
        check(schema, {"$schema": 1})
    with pytest.raises(CallError, match="at pattern: 1 is not of type"):
        check(schema, {"pattern": 1})
