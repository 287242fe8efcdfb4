import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpus_files import CORPUS
from toolbank.retrievers.decomposition import split_request


@pytest.mark.parametrize(
    ("text", "parts"),
    json.loads((CORPUS / "orders" / "parts.json").read_text()).items(),
)
def test_orders_are_parted(text, parts):
    assert split_request(text) == parts


CONNECTIVES = (
    "and then also next after that afterward afterwards subsequently finally lastly"
)
PIECES = (
    'book|the|a|hotel|and|then|cancel|it.|My|If|, |; |\n|\n1. |\n- | 2) |. |? |! |"|(x)|'
    "rains,|number|12|and then|after that|finally|also|é|日本|e.g.|…"
)


def words(text):
    return re.findall(r"\w+", text.casefold())


@given(
    st.lists(st.sampled_from(PIECES.split("|")), max_size=25),
    st.sampled_from([" ", ""]),
)
def test_no_word_is_lost_but_connectives_and_list_numbers(pieces, glue):
    text = glue.join(pieces)
    parts = split_request(text)
    assert parts
    kept = iter([word for part in parts for word in words(part)])
    ahead = next(kept, None)
    lost = []
    for word in words(text):
        if word == ahead:
            ahead = next(kept, None)
        else:
            lost.append(word)
    assert ahead is None
    allowed = set(CONNECTIVES.split())
    assert all(word in allowed or re.fullmatch(r"\d{1,2}", word) for word in lost)


@given(st.text(max_size=200))
def test_any_text_gives_parts_of_it(text):
    parts = split_request(text)
    assert parts
    assert all(part in text for part in parts)
    if any(not letter.isspace() and letter not in ",;" for letter in text):
        assert all(part.strip() for part in parts)


@pytest.mark.parametrize("gap", [" ", "\n", "\t", " \n"])
def test_a_long_gap_is_one_like_any_other(gap):
    # The time that it takes grew with the square of its length: minutes for this one.
    text = f"Send the letter.{gap * 100_000}Book a flight."
    assert split_request(text) == ["Send the letter.", "Book a flight."]
