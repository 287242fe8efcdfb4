import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbank.bank.bank import Bank
from toolbank.bank.records import Ask, Query, Tool
from toolbank.requests.profile import CopiesConfig
from toolbank.requests.profile.copies import (
    CopyCounts,
    count_copies,
    find_copies,
    find_dropped,
)
from toolbank.requests.write.near_duplicates import measure_jaccard, word_grams

LIMITS = CopiesConfig()
words = st.lists(st.sampled_from("abcdE"), min_size=1, max_size=12).map(" ".join)
LONG = "Sort the readings of the old weather station by the hour and draw the mean of each week"
NEAR = f"{LONG} please"
OTHER = "Translate the letter of my grandmother from Danish, and read it out to me"


@given(st.lists(words, max_size=6), st.lists(words, max_size=6))
def test_what_is_found_is_what_comparing_all_would_find(texts, others):
    found = find_copies([text.upper() for text in texts], others, LIMITS)
    for place, text in enumerate(texts):
        grams = word_grams(text)
        alike = {
            row: measure_jaccard(grams, word_grams(other))
            for row, other in enumerate(others)
            if measure_jaccard(grams, word_grams(other)) >= LIMITS.jaccard
        }
        matches = found.get(place, [])
        assert {place: one.score for one in matches for place in one.places} == alike
        same = {place for one in matches if one.how == "same" for place in one.places}
        assert same == {
            r for r, other in enumerate(others) if other.lower() == text.lower()
        }


def test_case_folding_goes_beyond_lower_case():
    [[match]] = find_copies(["MISS DIE STRASSE!"], ["Miß die Straße"], LIMITS).values()
    assert match.how == "same"


def make(number, text, split):
    return Query(id=str(number), query=text, tools=("a",), split=split)


@pytest.fixture
def bank():
    queries = (
        make(0, LONG, "test"),
        make(1, OTHER, "validation"),
        make(2, LONG.upper(), "train"),
        make(3, NEAR, "train"),
        make(4, "Something else entirely", "train"),
        make(5, OTHER, None),
    )
    asks = (Ask(tool="a", kind="plain", ask=f"{OTHER}!"),)
    return Bank((Tool(name="a"),), queries, asks=asks)


def test_counts_are_by_part_and_name_what_is_copied(bank, tmp_path):
    public = tmp_path / "public.jsonl"
    public.write_text(json.dumps({"query": LONG.lower()}) + "\n")
    limits = CopiesConfig(against=(public,))
    found = {(one.of, one.against): one for one in count_copies(bank, limits, [OTHER])}
    train = found["train", "test"]
    assert (train.same, train.jaccard, train.copied) == (1, 1, 1)
    assert (train.requests, train.others) == (3, 1)
    assert [(one.id, one.other) for one in train.examples] == [("2", LONG), ("3", LONG)]
    assert found["asks", "validation"].same == 1
    assert found["asks", "examples of the prompts"].same == 1
    assert found["validation", "examples of the prompts"].same == 1
    assert found["test", "public.jsonl"].same == 1
    assert not found["validation", "test"].total
    assert ("test", "test") not in found


def test_many_copies_of_one_request_are_compared_once(bank):
    same = [make(n, LONG, "train") for n in range(5000)]
    held_out = [make(f"t{n}", LONG, "test") for n in range(5000)]
    [counts] = count_copies(replace(bank, queries=(*same, *held_out), asks=()), LIMITS)
    assert (counts.same, counts.copied) == (5000, 5000)


def test_only_copies_of_held_out_requests_and_of_other_sets_are_dropped(bank, tmp_path):
    texts = [query.query for query in bank.split("train")]
    assert find_dropped(texts, bank.queries, LIMITS, None) == []
    drops = CopiesConfig(drop=True)
    assert find_dropped(texts, bank.queries, drops, None) == [0, 1]
    public = tmp_path / "public.jsonl"
    public.write_text(json.dumps({"query": "something ELSE entirely"}) + "\n")
    more = CopiesConfig(drop=True, against=(public,))
    assert find_dropped(texts, bank.queries, more, None) == [0, 1, 2]


@pytest.mark.parametrize(("same", "jaccard"), [(0, 0), (2, 1)])
def test_counts_are_said_with_the_set_that_was_copied(same, jaccard):
    counts = CopyCounts("train", "test", 30, 12, same, jaccard, 0, same)
    said = counts.describe()
    assert f"of test in train: {same + jaccard} of 30" in said
    assert ("of 12" in said) == ("Jaccard" in said) == bool(jaccard)
