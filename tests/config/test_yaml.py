"""What is written as YAML reads back, and what a user wrote is told by its lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbank.config.yaml import dump_mapping, parse_mapping, parse_value
from toolbank.system.errors import InputError

# A line break of old mainframes is a space to YAML.
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x85"), max_size=100)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4)
    ),
    max_leaves=20,
)


@given(st.dictionaries(TEXTS, VALUES))
def test_what_is_written_reads_back_to_the_same(data):
    assert parse_mapping(dump_mapping(data), "recipe.yaml")[0] == data


def test_each_key_and_item_has_its_line():
    text = "name: a\nsources:\n  - type: python\n    package: json\n  - {type: mcp}\n"
    lines = parse_mapping(text, "recipe.yaml")[1]
    assert lines["name",] == 1
    assert lines["sources", 0, "package"] == 4
    assert lines["sources", 1, "type"] == 5


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 100_000, "- " * 400_000])
def test_what_is_nested_too_deep_is_refused(text):
    with pytest.raises(InputError, match=r"^a\.yaml.*not valid YAML"):
        parse_value(text, "a.yaml")


@pytest.mark.parametrize(
    "text", ["a: !!bool maybe", "a: !!timestamp x", "a: !!int b", "a: !!int ''"]
)
def test_a_tag_on_what_it_is_not_is_refused(text):
    with pytest.raises(InputError, match=r"^a\.yaml: not valid YAML"):
        parse_value(text, "a.yaml")


def test_what_people_read_is_written_as_they_read_it():
    assert dump_mapping({"name": "🎵 für"}) == "name: 🎵 für\n"


def test_a_text_that_ends_too_early_is_told_with_its_last_line():
    with pytest.raises(InputError, match=r"^a\.yaml, line 2: not valid YAML"):
        parse_value("name: a\nsources: [", "a.yaml")
