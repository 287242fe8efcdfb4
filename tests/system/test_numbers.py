import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbank.system.numbers import about, count, dollars, duration, rate, span


@given(st.floats(min_value=0, max_value=1e15))
def test_a_round_number_is_within_a_twentieth_and_has_two_digits(number):
    told = about(number)
    value = int(told.replace(",", ""))
    assert abs(value - number) <= max(0.5, 0.051 * number)
    assert len(told.replace(",", "").rstrip("0")) <= 2 or number < 100


SHOWN = {
    dollars: {0: "$0.00", 0.004: "less than $0.01", 4.3: "$4.30", 9.999: "$10.00"},
    about: {47: "47", 1234: "1,200"},
    rate: {0.075: "$0.075", 1.1: "$1.10", 15: "$15.00", 1500: "$1,500.00"},
    duration: {0: "1 s", 47: "47 s", 150: "2.5 min", 3600: "60 min", 5400: "1.5 h"},
}
SHOWN[dollars] |= {12.4: "$12", 1234: "$1,200"}
SHOWN[duration] |= {36000: "10 h", 3 * 86400: "3 days"}


@pytest.mark.parametrize(
    ("show", "number", "text"),
    [(show, *case) for show, cases in SHOWN.items() for case in cases.items()],
)
def test_a_number_is_shown_as_people_write_it(show, number, text):
    assert show(number) == text


def test_a_range_of_one_value_is_shown_once_and_a_count_with_its_plural():
    assert span("3 h", "3 h") == "3 h"
    assert span("3 h", "4 h") == "3 h to 4 h"
    assert count(1, "tool") == "1 tool"
    assert count(0, "tool") == "0 tools"
    assert count(1_200, "reply", "replies") == "1,200 replies"
