"""Schemas are held against the metaschema of JSON Schema, by a shorter way where they are sound."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from toolbank.sources.checks import explain_unsound

KEYWORDS = st.sampled_from(
    [
        *(
            "type",
            "title",
            "description",
            "format",
            "pattern",
            "default",
            "const",
            "enum",
        ),
        *("examples", "deprecated", "readOnly", "minimum", "exclusiveMinimum"),
        *(
            "multipleOf",
            "minLength",
            "maxItems",
            "minContains",
            "required",
            "$ref",
            "$defs",
        ),
        *(
            "dependentRequired",
            "properties",
            "patternProperties",
            "items",
            "prefixItems",
        ),
        *("additionalProperties", "not", "if", "contains", "propertyNames", "allOf"),
        *("anyOf", "uniqueItems", "$id", "$anchor", "dependentSchemas", "x-more"),
    ]
)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 3),
    st.sampled_from([0.5, 2.0, "string", "object", "a", "(", "", "#/$defs/a"]),
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
    "schema",
    [
        {"required": [{"a": n} for n in range(50_000)]},
        {"properties": {"a": {"type": [[n] for n in range(50_000)]}}},
        {"items": {"dependentRequired": {"a": [n / 2 for n in range(50_000)]}}},
    ],
)
def test_a_flood_in_a_list_of_names_is_refused_at_once(schema):
    # Each compared with each other, these take hours.
    assert "over 100 things" in explain_unsound(schema)
