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


@pytest.mark.parametrize(
    ("amount", "told"),
    [
        (0, "$0.00"),
        (0.004, "less than $0.01"),
        (4.3, "$4.30"),
        (9.999, "$10.00"),
        (12.4, "$12"),
        (1234, "$1,200"),
    ],
)
def test_dollars(amount, told):
    assert dollars(amount) == told


@pytest.mark.parametrize(
    ("price", "told"),
    [(0.075, "$0.075"), (1.1, "$1.10"), (15, "$15.00"), (1500, "$1,500.00")],
)
def test_a_rate_keeps_its_digits(price, told):
    assert rate(price) == told


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "1 s"),
        (47, "47 s"),
        (150, "2.5 min"),
        (3600, "60 min"),
        (5400, "1.5 h"),
        (36000, "10 h"),
        (3 * 86400, "3 days"),
    ],
)
def test_a_duration_is_told_in_a_unit_that_fits(seconds, told):
    assert duration(seconds) == told


def test_a_range_of_one_value_is_told_once():
    assert span("3 h", "3 h") == "3 h"
    assert span("3 h", "4 h") == "3 h to 4 h"


def test_what_is_counted_is_in_its_plural_where_it_takes_one():
    assert count(1, "tool") == "1 tool"
    assert count(0, "tool") == "0 tools"
    assert count(1_200, "reply", "replies") == "1,200 replies"
