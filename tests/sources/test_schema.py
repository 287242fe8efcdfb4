import json

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.corpus_files import CORPUS, check_expected
from toolbank.sources.documented import read_signature
from toolbank.sources.typetext import (
    Parameter,
    is_optional,
    parameters_schema,
    schema_of,
)

TEXT = {"type": "string"}


READERS = {
    "texts": schema_of,
    "signatures": lambda line: [
        item.name + "!" * bool(item.required)
        for item in read_signature(line).parameters
    ],
}


@pytest.mark.parametrize("name", READERS)
def test_each_line_is_read_as_expected(name, update_corpus):
    file = CORPUS / "types" / f"{name}.txt"
    lines = ["", *file.read_text("utf-8").splitlines()]
    found = {line: READERS[name](line) for line in lines}
    check_expected(file.with_suffix(".tools.json"), found, update=update_corpus)


def test_a_signature_adds_to_what_its_words_say():
    words = Parameter("mode", "{'a', 'b'}", default="c")
    schema = parameters_schema([words])["properties"]["mode"]
    assert schema == {**TEXT, "enum": ["a", "b", "c"], "default": "c"}
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


@given(st.text(alphabet="fxy()[]{}=,*/'\" \n12:", max_size=60) | st.text())
def test_no_signature_is_refused(text):
    read_signature(text)
