import re

from hypothesis import given
from hypothesis import strategies as st

from toolbank.bank.records import Query
from toolbank.requests.write.near_duplicates import NearDuplicates, find_across_splits

words = st.lists(st.sampled_from("abcdef"), max_size=14)
# What is done to a text to get one that may be like it: words put in and taken out.
changes = st.lists(st.tuples(st.integers(0, 14), st.sampled_from(["", *"abcxyz"])))


def grams(text):
    found = re.findall(r"\w+", text.lower())
    return {" ".join(found[i : i + 3]) for i in range(max(1, len(found) - 2))}


def are_alike(first, second, threshold):
    one, other = grams(first), grams(second)
    return len(one & other) / len(one | other) >= threshold


@st.composite
def texts(draw):
    made = []
    for _ in range(draw(st.integers(1, 8))):
        text = list(draw(st.sampled_from(made) if made else words) or draw(words))
        for place, word in draw(changes):
            text[place : place + 1 - bool(word)] = [word] if word else []
        made.append(text)
    return [" ".join(text) for text in made]


@given(texts(), st.sampled_from([0.2, 0.5, 0.7, 0.8, 0.95, 1.0]))
def test_what_is_found_is_what_comparing_all_would_find(made, threshold):
    seen = NearDuplicates(threshold, made.__getitem__)
    for number, text in enumerate(made):
        before = range(number)
        alike = [n for n in before if are_alike(text, made[n], threshold)]
        found = seen.find_like(f"{text.upper()}!")
        assert found == (alike[0] if alike else None)
        seen.add(text)


LONG = (
    "Sort the readings of the old weather station by the hour and then draw the mean of each "
    "week as a line, with the highest day marked in red"
)


def make(number, text, split):
    return Query(id=str(number), query=text, tools=("a",), split=split)


def test_what_a_held_out_request_says_is_found_in_train_and_not_the_other_way():
    other = "Translate the letter of my grandmother from Danish, and read it out to me"
    queries = [
        make(0, f"{LONG}, please", "train"),
        make(1, other, "train"),
        make(2, LONG, "test"),
        make(3, f"{LONG} ink", "validation"),
        make(4, f"{other} tonight", "train"),
        make(5, LONG, None),
    ]
    # Two of train that are alike are left: neither is held out.
    assert find_across_splits(queries) == {0, 3}
