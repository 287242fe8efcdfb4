from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.analyses.found import found
from toolbank.report.analyses import cut_evenly, follow_uses


def test_tools_are_grouped_by_their_training_requests():
    uses = {"a": 0, "b": 3, "c": 3, "d": 40}
    rows = [found("ab", "b"), found("cd", "d"), found("dx", "d"), found("a", "a")]
    chart = follow_uses({"mine": rows}, uses, seed=0)
    assert [text for text, _ in chart.groups] == ["0\u20132", "3\u201339", "40"]
    [line] = chart.lines
    assert [dot.mean.value for dot in line.dots] == pytest.approx([0.5, 0.5, 1])
    assert [dot.mean.n for dot in line.dots] == [2, 2, 2]


def test_tools_of_equal_use_tell_nothing():
    assert follow_uses({"mine": [found("ab", "a")]}, {"a": 4, "b": 4}, 0) is None
    assert follow_uses({"mine": [found("ab", "a")]}, {}, 0) is None
    assert follow_uses({}, {"a": 1}, 0) is None


@given(st.lists(st.integers(0, 60)), st.integers(1, 6))
def test_groups_are_at_most_so_many_and_none_but_the_last_is_small(numbers, groups):
    starts = cut_evenly(numbers, groups)
    assert starts == sorted(set(starts))
    assert len(starts) <= groups
    assert starts[:1] == sorted(numbers)[:1]
    sizes = Counter(sum(start <= number for start in starts) for number in numbers)
    assert len(sizes) == len(starts)
    assert all(sizes[i] >= len(numbers) / groups for i in range(1, len(starts)))
