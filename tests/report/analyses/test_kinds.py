import pytest

from tests.report.analyses.found import found
from toolbank.report.analyses import compare_kinds, kind_of
from toolbank.requests.asks import KINDS


def test_the_kind_stands_in_the_id():
    assert [kind_of(f"ask-{kind}-numpy.mean") for kind in KINDS] == list(KINDS)
    for other in ("numpy-000003", "ask-17", "ask-plainer-1", "plain", "ask", ""):
        assert kind_of(other) == ""


def test_each_kind_has_the_mean_recall_of_its_requests():
    rows = [
        found("a", "ab", "ask-terse-1"),
        found("a", "b", "ask-terse-2"),
        found("ab", "a", "r1"),
        found("a", "a", "ask-plain-1"),
    ]
    chart = compare_kinds({"mine": rows, "theirs": rows[::-1]}, seed=0)
    assert [text for text, _ in chart.groups] == ["plain", "terse", "others"]
    for line in chart.lines:
        assert [dot.mean.value for dot in line.dots] == pytest.approx([1, 0.5, 0.5])
        assert [dot.mean.n for dot in line.dots] == [1, 2, 1]


def test_without_kinds_there_is_no_chart():
    assert compare_kinds({"mine": [found("a", "a", "q7")]}, seed=0) is None
    assert compare_kinds({}, seed=0) is None
