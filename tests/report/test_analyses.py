"""The analyses of what is missed, of hits by hand."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbank.evaluation.evaluate import Found
from toolbank.evaluation.figures import Figure
from toolbank.report.analyses import (
    compare_kinds,
    count_failures,
    cut_evenly,
    draw_sweep,
    find_sweeps,
    follow_uses,
    kind_of,
    split_lengths,
)
from toolbank.requests.asks import KINDS


def found(tools, hits, query_id="q1", query="Which is it?"):
    """One query's; tools are letters."""
    return Found("test", query_id, query, tuple(tools), tuple(hits))


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


def test_what_counts_for_nothing_gives_nothing():
    assert count_failures([found("ax", "a")], {"a"}).mean == 0
    assert count_failures([found("x", "a")], {"a"}) is None
    assert count_failures([], {"a"}) is None
    assert compare_kinds({"mine": [found("a", "a", "q7")]}, seed=0) is None
    assert compare_kinds({}, seed=0) is None
    assert follow_uses({"mine": [found("ab", "a")]}, {"a": 4, "b": 4}, 0) is None
    assert follow_uses({"mine": [found("ab", "a")]}, {}, 0) is None
    assert follow_uses({}, {"a": 1}, 0) is None


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


def test_a_request_has_failed_where_one_of_its_tools_is_missed():
    rows = [
        found("ab", "xab", query="three words here"),
        found("ab", "axy", query="one  and\ntwo"),
        found("a", "", query="hm"),
    ]
    assert split_lengths(rows) == ([3], [3, 1])


def refiner(candidates, **settings):
    return {
        "type": "refiner",
        "name": f"refiner-{candidates}",
        "candidates": candidates,
        "training": {"epochs": 2, "patience": None},
        **settings,
    }


def figure(retriever, value, name="test", k=5, n=9):
    return Figure(retriever, name, "recall", k, value, None, None, n)


def test_retrievers_that_differ_in_one_number_are_a_sweep():
    epochs = [
        refiner(8, name=f"for-{n}", training={"epochs": n, "patience": None})
        for n in (1, 4)
    ]
    others = [{"type": "bm25", "name": "", "requests": flag} for flag in (True, False)]
    tried = [refiner(n) for n in (32, 8, 128)]
    sweeps = find_sweeps([*others, *tried, *epochs])
    assert [(sweep.type, sweep.key) for sweep in sweeps] == [
        ("refiner", "candidates"),
        ("refiner", "training.epochs"),
    ]
    by_candidates = [(n, f"refiner-{n}") for n in (8, 32, 128)]
    assert list(sweeps[0].labels.items()) == by_candidates
    assert list(sweeps[1].labels.values()) == ["for-1", "refiner-8", "for-4"]
    # Neither two values nor a second difference.
    for none in ([], [8, 16], [8, 16, 32]):
        *some, last = [refiner(n) for n in none] or [refiner(1)]
        assert find_sweeps([*some, {**last, "vectors": "other"}]) == []


def test_a_sweep_is_drawn_by_its_recall_on_each_set():
    [sweep] = find_sweeps([refiner(n) for n in (64, 16, 32)])
    figures = [
        *(figure(f"refiner-{n}", 0.01 * n) for n in (16, 32, 64)),
        figure("refiner-16", 0.9, k=3),
        figure("refiner-64", 0.5, name="natural"),
        figure("refiner-16", None, name="empty", n=0),
    ]
    chart = draw_sweep(sweep, figures, 5)
    assert [text for text, _ in chart.groups] == ["16", "32", "64"]
    told = {line.label: [dot.mean.value for dot in line.dots] for line in chart.lines}
    assert told == {"test": pytest.approx([0.16, 0.32, 0.64]), "natural": [0.5]}
    assert draw_sweep(sweep, [], None) is None


def test_tools_are_grouped_by_their_training_requests():
    uses = {"a": 0, "b": 3, "c": 3, "d": 40}
    rows = [found("ab", "b"), found("cd", "d"), found("dx", "d"), found("a", "a")]
    chart = follow_uses({"mine": rows}, uses, seed=0)
    assert [text for text, _ in chart.groups] == ["0\u20132", "3\u201339", "40"]
    [line] = chart.lines
    assert [dot.mean.value for dot in line.dots] == pytest.approx([0.5, 0.5, 1])
    assert [dot.mean.n for dot in line.dots] == [2, 2, 2]


@given(st.lists(st.integers(0, 60)), st.integers(1, 6))
def test_groups_are_at_most_so_many_and_none_but_the_last_is_small(numbers, groups):
    starts = cut_evenly(numbers, groups)
    assert starts == sorted(set(starts))
    assert len(starts) <= groups
    assert starts[:1] == sorted(numbers)[:1]
    sizes = Counter(sum(start <= number for start in starts) for number in numbers)
    assert len(sizes) == len(starts)
    assert all(sizes[i] >= len(numbers) / groups for i in range(1, len(starts)))
