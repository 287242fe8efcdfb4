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


TOO_DEEP = ("[" * 100_000, "{a: " * 100_000, "- " * 400_000)
WRONG_TAGS = ("a: !!bool maybe", "a: !!timestamp x", "a: !!int b", "a: !!int ''")


@pytest.mark.parametrize("text", [*TOO_DEEP, *WRONG_TAGS, "name: a\nsources: ["])
def test_what_is_no_yaml_is_refused(text):
    # A text that ends too early is refused at its last line.
    line = ", line 2" if "sources" in text else ".*"
    with pytest.raises(InputError, match=rf"^a\.yaml{line}: not valid YAML"):
        parse_value(text, "a.yaml")


def test_what_people_read_is_written_as_they_read_it():
    assert dump_mapping({"name": "🎵 für"}) == "name: 🎵 für\n"
