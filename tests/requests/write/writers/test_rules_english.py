"""What the rules engine reads in a reference's sentences, and how it says it."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbank.requests.rules.engine import merge_steps, split_draft, write_draft
from toolbank.requests.rules.english import (
    Phrase,
    load_glossary,
    read_ask,
    read_phrase,
    split_sentences,
)
from toolbank.requests.rules.wording import say_plainly


@pytest.mark.parametrize(
    ("sentence", "kind", "text"),
    [
        ("Return the sum of all prices.", "thing", "the sum of all prices"),
        ("Joins two lists (in order).", "do", "join two lists"),
        ("Test whether two lists overlap.", "question", "whether two lists overlap"),
        ("Return True if the door is open.", "question", "whether the door is open"),
        ("Inverse sine of an angle.", "thing", "the Inverse sine of an angle"),
        ("This function converts degrees to radians.", "do", None),
        ("A class for reading spreadsheet files.", "do", "read spreadsheet files"),
        ("Days are numbered from 1 through 365.", "fact", None),
    ],
)
def test_sentences_are_read_as_what_they_ask_for(sentence, kind, text):
    phrase = read_phrase(sentence)
    assert phrase is not None
    assert phrase.kind == kind
    if text is not None:
        assert phrase.text.lower() == text.lower()


@pytest.mark.parametrize(
    "sentence",
    ["See foo_bar.", "Equivalent to ``x[0] + y``.", "out[i] = a[i+1]", "", ".", "None"],
)
def test_sentences_that_lean_on_code_are_left_out(sentence):
    assert read_phrase(sentence) is None


def test_code_blocks_are_no_sentences():
    sentences = split_sentences("Sort it.\n\n>>> sort(x)\n\nThen look.")
    assert sentences == ["Sort it.", "Then look."]


@given(st.text(max_size=200))
def test_any_text_can_be_read_and_said(text):
    for sentence in split_sentences(text):
        phrase = read_phrase(sentence)
        if phrase is not None:
            said = say_plainly(phrase, "prices", Random(0))
            assert "`" not in said.text
            assert "_" not in said.text


def test_concrete_data_stands_in_place_of_arrays():
    phrase = Phrase("thing", "the sum of array elements over a given axis")
    said = say_plainly(phrase, "prices", Random(1)).text
    assert "array" not in said
    assert "axis" not in said
    assert "the prices" in said


def test_every_term_of_the_glossary_is_found_and_every_ask_can_be_said():
    glossary = load_glossary()
    for term, entry in glossary.terms.items():
        found = glossary.find(f"the {term}")
        assert [n for n, _, _ in found] == [entry], term
    for entry in glossary.entries:
        for ask in entry.asks:
            assert "{x}" in ask or "{" not in ask
            assert read_ask(ask.replace("{x}", "the prices")).text
            assert "_" not in ask


@given(st.integers(0, 500), st.integers(2, 5))
def test_merging_keeps_every_step_of_the_draft(seed, n_steps):
    random = Random(seed)
    steps = [f"sort list number {n}" for n in range(n_steps)]
    draft = write_draft("I have five lists.", steps, random)
    assert split_draft(draft) == ("I have five lists.", steps)
    query = merge_steps(draft, random)
    assert all(step.removeprefix("sort ") in query for step in steps)
    assert "I have five lists." in query
