import pytest

from tests.report.analyses.found import found
from toolbank.report.analyses import count_failures


def test_each_tool_counts_once_however_often_it_is_needed():
    rows = [found("abc", "ab"), found("ab", "a"), found("c", ""), found("cd", "c")]
    failures = count_failures(rows, set("abcd"))
    # a: 0 of 2, b: 1 of 2, c: 2 of 3, d: 1 of 1.
    rates = [0, 1 / 2, 2 / 3, 1]
    mean = sum(rates) / 4
    assert failures.mean == pytest.approx(mean)
    variance = sum((rate - mean) ** 2 for rate in rates) / 4
    assert failures.deviation == pytest.approx(variance**0.5)
    assert failures.parts == (1, 1, 1, 1)


def test_names_that_are_no_tools_count_for_nothing():
    assert count_failures([found("ax", "a")], {"a"}).mean == 0
    assert count_failures([found("x", "a")], {"a"}) is None
    assert count_failures([], {"a"}) is None
