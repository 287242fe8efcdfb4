"""The check of schemas says what jsonschema says, and survives hostile ones."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from toolbank.sources.checks import SchemaCheck, explain_unsound

KEYWORDS = st.sampled_from(
    [
        *("type", "title", "description", "format", "pattern", "default", "const"),
        *("enum", "examples", "deprecated", "readOnly", "minimum", "exclusiveMinimum"),
        *("multipleOf", "minLength", "maxItems", "minContains", "required", "$ref"),
        *("$defs", "dependentRequired", "properties", "patternProperties", "items"),
        *("prefixItems", "additionalProperties", "not", "if", "contains"),
        *("propertyNames", "allOf", "anyOf", "uniqueItems", "$id", "$anchor"),
        *("$schema", "dependentSchemas", "definitions", "x-more"),
    ]
)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 3),
    st.sampled_from([0.5, 2.0, "string", "object", "a", "(", "", "#/$defs/a b"]),
    st.lists(st.sampled_from(["string", "null", "a", "a", 1]), max_size=3),
)
SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    VALUES | st.dictionaries(KEYWORDS, VALUES, max_size=3),
    lambda inner: st.one_of(
        st.dictionaries(KEYWORDS, inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "b", "("]), inner, max_size=2),
        st.lists(inner, max_size=2),
    ),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(schema=st.dictionaries(KEYWORDS, SCHEMAS, max_size=4))
def test_it_says_what_the_metaschema_says(schema: dict[str, Any]) -> None:
    metaschema = Draft202012Validator(
        Draft202012Validator.META_SCHEMA,
        format_checker=Draft202012Validator.FORMAT_CHECKER,
    )
    assert (explain_unsound(schema) == "") == metaschema.is_valid(schema)


def test_it_says_where_and_what_is_wrong() -> None:
    schema = {"properties": {"city": {"items": {"type": "strng"}}}}
    said = explain_unsound(schema)
    assert said.startswith(".properties.city.items.type: 'strng' is not valid")


@pytest.mark.parametrize(
    ("keyword", "schema"),
    [
        ("required", {"required": [{"a": n} for n in range(50_000)]}),
        ("type", {"properties": {"a": {"type": [[n] for n in range(50_000)]}}}),
        (
            "dependentRequired",
            {"items": {"dependentRequired": {"a": [n / 2 for n in range(50_000)]}}},
        ),
    ],
)
def test_a_flood_in_a_list_of_names_is_refused_at_once(keyword, schema):
    # Each compared with each other, these take hours.
    assert explain_unsound(schema).startswith(f": {keyword} lists over 100 ")


@pytest.mark.parametrize("keyword", ["items", "default"])
@pytest.mark.parametrize(
    ("depth", "is_sound"), [(790, True), (810, False), (100_000, False)]
)
def test_a_deep_schema_does_not_overflow_the_stack_of_a_thread(
    keyword, depth, is_sound
):
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {keyword: schema}
    said: list[str] = []
    before = threading.stack_size(512 * 1024)  # as on macOS
    try:
        thread = threading.Thread(target=lambda: said.append(explain_unsound(schema)))
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    assert [not one for one in said] == [is_sound]


def test_an_unsound_schema_that_is_deep_is_refused():
    schema: dict[str, Any] = {"type": "strng"}
    for _ in range(300):
        schema = {"anyOf": [schema]}
    assert "too deep" in explain_unsound(schema)


def test_the_dialect_that_a_schema_names_is_not_downloaded():
    assert not explain_unsound({"$schema": "http://127.0.0.1:9/dialect"})


@pytest.mark.parametrize(
    ("parameters", "place"),
    [
        ({"type": "string"}, "its type"),
        ({"type": "object", "properties": []}, "properties:"),
        ({"type": "object", "properties": {"a": True}}, "properties.a:"),
        (
            {"type": "object", "properties": {"a": {"type": "b"}}},
            "properties.a.type:",
        ),
        ({"type": "object", "$defs": {"a": {"type": "b"}}}, "['$defs'].a.type:"),
        ({"type": "object", "required": "a"}, "required:"),
    ],
)
def test_what_is_wrong_with_parameters_is_found_every_time(parameters, place):
    check = SchemaCheck()
    assert check.explain(parameters).startswith(place)
    assert check.explain(parameters).startswith(place)
