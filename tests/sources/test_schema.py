"""Type texts as authors write them, read into JSON Schema."""
# ruff: noqa: RUF001 - Sphinx sets the quotes of prose

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolbank.sources.schema.parameters import Parameter, parameters_schema, schema_of

TEXT = {"type": "string"}
ANY_LIST = {"type": "array", "format": "list-like"}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("{index (0), columns (1)}", {"enum": [0, "index", 1, "columns"]}),
        ("{{0 or 'index', 1}}", {"enum": [0, "index", 1]}),
        ("str {'a', 'b'}, default 'a'", {**TEXT, "enum": ["a", "b"], "default": "a"}),
        ("{'backfill'/'bfill'}", {**TEXT, "enum": ["backfill", "bfill"]}),
        ("list-like or None", {"anyOf": [ANY_LIST, {"type": "null"}]}),
        ("list-like of int", {"type": "array", "items": {"type": "integer"}}),
        ("dict-like", {"type": "object", "format": "dict-like"}),
        ("Index, optional", {"format": "Index"}),
        ("index", {"type": "integer", "format": "index"}),
        ("bool, default False, optional", {"type": "boolean", "default": False}),
        ("Index (1d)", {"format": "Index (1d)"}),
        ("int {0, 1, …, 6}, default 0", {"type": "integer", "default": 0}),
        ("int, {1, 3,…,27}", {"type": "integer"}),
        (
            "{0 or ‘index’} for Series, {0 or ‘index’, 1 or ‘columns’} for DataFrame",
            {"enum": [0, "index", 1, "columns"]},
        ),
        ("“{0 or ‘index’, 1}”, default 0", {"enum": [0, "index", 1], "default": 0}),
        ("{default ‘a’, ‘b’}", {**TEXT, "enum": ["a", "b"], "default": "a"}),
        ("{‘a, ‘b’}", {**TEXT, "enum": ["a", "b"]}),
        ("{‘C’, ‘F’}, default: C", {**TEXT, "enum": ["C", "F"], "default": "C"}),
        ("str, default ‘\\t’ (tab-stop)", {**TEXT, "default": "\t"}),
        ("bool, default True if x else False", {"type": "boolean"}),
        ("int (default: 0), or range", {
            "anyOf": [{"type": "integer"}, {"format": "range"}], "default": 0}),
        ("tuple, default (‘a’, ‘b’)", {
            "type": "array", "format": "tuple", "default": ["a", "b"]}),
        ("callable(1d-array) -> bool 1d-array", {
            "format": "callable(1d-array) -> bool 1d-array"}),
        ("pyarrow.Array", {"format": "pyarrow.Array"}),
        ("bool Series", {"format": "bool Series"}),
        ("int or shape tuple", {
            "anyOf": [{"type": "integer"}, {"type": "array", "format": "shape tuple"}]}),
        ("scalar with the same dtype as a", {
            "type": ["number", "string", "boolean"],
            "format": "scalar with the same dtype as a"}),
        ("str/regex", {"anyOf": [TEXT, {"format": "regex"}]}),
        ("list/tuple of str", {"type": "array", "items": TEXT}),
        ("dict of {str: callable or Series}", {
            "type": "object", "format": "dict of {str: callable or Series}"}),
        ("list of bool arrays or bool scalars", {
            "anyOf": [
                {"type": "array", "items": {"anyOf": [
                    {"type": "array", "format": "bool arrays"},
                    {"type": "boolean", "format": "bool scalars"}]}},
                {"type": "boolean", "format": "bool scalars"}]}),
        ("input int", {"type": "integer"}),
        ("int, optional, keyword-only", {"type": "integer"}),
        ("int, default None", {"type": ["integer", "null"], "default": None}),
        ("bool, ‘NaT’, default ‘raise’", {
            "anyOf": [{**TEXT, "enum": ["NaT", "raise"]}, {"type": "boolean"}],
            "default": "raise"}),
    ],
)  # fmt: skip
def test_type_texts(words: str, expected: dict[str, Any]) -> None:
    assert schema_of(words) == expected


def test_a_signature_widens_what_its_words_allow() -> None:
    words = Parameter("mode", "{'a', 'b'}", default="c")
    schema = parameters_schema([words])["properties"]["mode"]
    assert schema == {**TEXT, "enum": ["a", "b", "c"], "default": "c"}


def test_the_rest_of_the_arguments_is_a_list_or_an_object() -> None:
    rest = [Parameter("*args", "int"), Parameter("**options", "Any")]
    assert parameters_schema(rest)["properties"] == {
        "args": {"type": "array", "format": "int"},
        "options": {"type": "object", "format": "Any"},
    }


PIECES = st.sampled_from(
    [
        "int",
        "str",
        "float",
        "bool",
        "None",
        "list of ",
        "scalar",
        "dict",
        "{'a', 'b'}",
        "{0, 1}",
        " or ",
        ", ",
        "array_like",
        "Index",
        "/",
        "{1, 2, ...}",
        "'x'",
        " and ",
    ]
)
DEFAULTS = st.sampled_from(["None", "'a'", "'z'", "0", "7", "1.5", "True", "[]", "{}"])


@given(st.lists(PIECES, max_size=6).map("".join), DEFAULTS)
@settings(max_examples=400)
def test_every_schema_allows_the_default_that_it_states(words: str, told: str) -> None:
    schema = schema_of(f"{words}, default {told}")
    assert "default" in schema
    jsonschema.validate(schema["default"], schema)
    if schema["default"] is not None:
        item = Parameter("x", words, default=schema["default"])
        jsonschema.validate({"x": schema["default"]}, parameters_schema([item]))


@pytest.mark.parametrize(
    ("words", "kind"),
    [("{'a', 'b', ...}", "string"), ("{1, 2, …, 9}", "integer")],
)
def test_a_list_that_is_left_open_is_no_enumeration(words: str, kind: str) -> None:
    assert schema_of(words) == {"type": kind}
