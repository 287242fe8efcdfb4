import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbank.retrievers.decomposition import split_request


@pytest.mark.parametrize(
    ("request_text", "parts"),
    [
        ("Cancel the alarm. Book a hotel.", ["Cancel the alarm.", "Book a hotel."]),
        ("Cancel the alarm; book a hotel", ["Cancel the alarm", "book a hotel"]),
        (
            "Load the table, sort it by date and then plot the sums",
            ["Load the table", "sort it by date", "plot the sums"],
        ),
        (
            "Find the order, and after that send it to Bob",
            ["Find the order", "send it to Bob"],
        ),
        (
            "Please cancel my flight and book a train for tomorrow",
            ["Please cancel my flight", "book a train for tomorrow"],
        ),
        ("1. Book a flight\n2. Book a hotel", ["Book a flight", "Book a hotel"]),
        ("- Book a flight\n- Book a hotel", ["Book a flight", "Book a hotel"]),
        (
            "Do this: 1) email Bob 2) call the bank",
            ["Do this:", "email Bob", "call the bank"],
        ),
        (
            "Where is my order? Finally, tell me the weather.",
            ["Where is my order?", "tell me the weather."],
        ),
        (
            "Cancel the alarm. Also, set a reminder for me.",
            ["Cancel the alarm.", "set a reminder for me."],
        ),
    ],
)
def test_orders_are_parted(request_text, parts):
    assert split_request(request_text) == parts


@pytest.mark.parametrize(
    "whole",
    [
        "Book a table for Tom and Jerry",
        "Show search and rescue teams and change logs",
        "If it rains, then cancel the picnic",
        "Book a room. My name is Li. My number is 7.",
        "My name is Li. My number is 7. Book a room.",
        "Ask Dr. Smith about the results",
        "Wake me at 8.30 a.m. on Monday",
        "hello there",
        "",
        "...",
    ],
)
def test_one_order_stays_whole(whole):
    assert split_request(whole) == [whole]


def test_what_asks_for_nothing_stays_with_the_part_before_it():
    text = "Book a room. My name is Li. Send the bill to my office."
    assert split_request(text) == [
        "Book a room. My name is Li.",
        "Send the bill to my office.",
    ]


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
