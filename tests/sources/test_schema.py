"""Type texts as authors write them, read into JSON Schema."""
# ruff: noqa: RUF001 - Sphinx sets the quotes of prose

import json

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolbank.sources.documented import read_signature
from toolbank.sources.typetext import (
    Parameter,
    is_optional,
    parameters_schema,
    schema_of,
)

TEXT = {"type": "string"}
ANY_LIST = {"type": "array", "format": "list-like"}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("int", {"type": "integer"}),
        ("int, optional", {"type": "integer"}),
        ("int or None", {"type": ["integer", "null"]}),
        ("int | None", {"type": ["integer", "null"]}),
        ("Optional[int]", {"type": ["integer", "null"]}),
        ("bool, default: True", {"type": "boolean", "default": True}),
        ("int, default=3", {"type": "integer", "default": 3}),
        ("str, optional (default 'a')", {**TEXT, "default": "a"}),
        ("str or None, default is None", {"type": ["string", "null"], "default": None}),
        ("{True, False}", {"type": "boolean"}),
        ("{1, 2}", {"enum": [1, 2]}),
        ("{'a' (default), 'b'}", {**TEXT, "enum": ["a", "b"], "default": "a"}),
        ("Literal['a', 'b']", {**TEXT, "enum": ["a", "b"]}),
        ("{None, 'sort'}", {"anyOf": [{**TEXT, "enum": ["sort"]}, {"type": "null"}]}),
        ("list[str]", {"type": "array", "items": TEXT}),
        ("tuple of ints", {
            "type": "array", "items": {"type": "integer"}, "format": "tuple of ints"}),
        ("int or tuple of int", {"anyOf": [{"type": "integer"}, {
            "type": "array", "items": {"type": "integer"}, "format": "tuple of int"}]}),
        ("array_like, shape (M,) or (M, K)", {
            "type": "array", "format": "array_like, shape (M,) or (M, K)"}),
        ("DataFrame or Series", {"format": "DataFrame or Series"}),
        ("", {}),
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
        ("{'a', 'b', ...}", TEXT),
        ("{1, 2, …, 9}", {"type": "integer"}),
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
def test_type_texts(words, expected):
    assert schema_of(words) == expected


def test_a_signature_widens_what_its_words_allow():
    words = Parameter("mode", "{'a', 'b'}", default="c")
    schema = parameters_schema([words])["properties"]["mode"]
    assert schema == {**TEXT, "enum": ["a", "b", "c"], "default": "c"}


def test_the_rest_of_the_arguments_is_a_list_or_an_object():
    rest = [Parameter("*args", "int"), Parameter("**options", "Any")]
    assert parameters_schema(rest)["properties"] == {
        "args": {"type": "array", "format": "int"},
        "options": {"type": "object", "format": "Any"},
    }


PIECES = [
    *("int", "str", "float", "bool", "None", "list of ", "scalar", "dict"),
    *("{'a', 'b'}", "{0, 1}", " or ", ", ", "array_like", "Index", "/", "{1, 2, ...}"),
    *("'x'", " and "),
]
SYNTAX = [
    *("{", "}", "[", "]", "|", "=", '"', "-", "...", "'a'", "optional", "default "),
    *("nan", "tuple of ", "(M, N)", "list[", "Literal[", "1e999", "with ", "shape "),
    "True",
]
DEFAULTS = st.sampled_from(["None", "'a'", "'z'", "0", "7", "1.5", "True", "[]", "{}"])


@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join), DEFAULTS)
@settings(max_examples=100)
def test_every_schema_allows_the_default_that_it_states(words, told):
    schema = schema_of(f"{words}, default {told}")
    assert "default" in schema
    jsonschema.validate(schema["default"], schema)
    if schema["default"] is not None:
        item = Parameter("x", words, default=schema["default"])
        jsonschema.validate({"x": schema["default"]}, parameters_schema([item]))


WORDS = st.lists(st.sampled_from(PIECES + SYNTAX) | st.text(max_size=5)).map("".join)


@given(WORDS | st.text())
def test_any_type_text_gives_a_valid_schema(words):
    schema = schema_of(words)
    json.dumps(schema, allow_nan=False)
    jsonschema.Draft202012Validator.check_schema(schema)
    is_optional(words)


def test_a_parameter_is_required_unless_something_says_otherwise():
    schema = parameters_schema(
        [
            Parameter("a", "int"),
            Parameter("b", "int, optional"),
            Parameter("c", "int, default 3"),
            Parameter("d", "int", required=False),
            Parameter("*rest"),
        ]
    )
    assert schema["required"] == ["a"]
    assert list(schema["properties"]) == ["a", "b", "c", "d", "rest"]


@pytest.mark.parametrize(
    ("line", "names", "required"),
    [
        (
            "add(x1, x2, /, out=None, *, where=True[, signature])",
            ["x1", "x2", "out", "where", "signature"],
            ["x1", "x2"],
        ),
        ("arange([start,] stop[, step,], dtype=None)",
         ["start", "stop", "step", "dtype"], ["stop"]),
        ("where(condition, [x, y], /)", ["condition", "x", "y"], ["condition"]),
        ("f(a=(1, 2), b=[3, 4], c='x,y')", ["a", "b", "c"], []),
        ("no signature", [], []),
    ],
)  # fmt: skip
def test_signatures_are_read_from_text(line, names, required):
    parameters = read_signature(line).parameters
    assert [item.name for item in parameters] == names
    assert [item.name for item in parameters if item.required] == required


@given(st.text(alphabet="fxy()[]{}=,*/'\" \n12:", max_size=60) | st.text())
def test_no_signature_is_refused(text):
    read_signature(text)
