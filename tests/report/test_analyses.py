"""The analyses of what is missed, of hits by hand, and the charts that they are drawn as."""

from collections import Counter
from itertools import pairwise

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
)
from toolbank.report.svg import LINE_HEIGHT, Mean, draw_lines, spread, take_mean


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
    for hits in ({"mine": [found("a", "a", "q7")]}, {}):
        assert compare_kinds(hits, seed=0) is None
    mine = {"mine": [found("ab", "a")]}
    for hits, uses in ((mine, {"a": 4, "b": 4}), (mine, {}), ({}, {"a": 1})):
        assert follow_uses(hits, uses, seed=0) is None


def test_each_kind_has_the_mean_recall_of_its_requests():
    others = ("r1", "ask-17", "plain", "ask-plainer-1")
    rows = [
        found("a", "ab", "ask-terse-1"),
        found("a", "b", "ask-terse-2"),
        found("a", "a", "ask-plain-1"),
        *(found("ab", "a", other) for other in others),
    ]
    chart = compare_kinds({"mine": rows, "theirs": rows[::-1]}, seed=0)
    assert [text for text, _ in chart.groups] == ["plain", "terse", "others"]
    for line in chart.lines:
        assert [dot.mean.value for dot in line.dots] == pytest.approx([1, 0.5, 0.5])
        assert [dot.mean.n for dot in line.dots] == [1, 2, 4]


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


def means(*values):
    return [None if value is None else Mean(value, None, None, 9) for value in values]


def test_a_dot_stands_over_its_group_at_its_height():
    chart = draw_lines(
        ["few", "many"],
        {"mine": means(0.1, 0.4), "theirs": means(None, 0.2), "low": means(0.0, 0.0)},
    )
    places = dict(chart.groups)
    mine, theirs, _ = chart.lines
    assert [dot.x for dot in mine.dots] == [places["few"], places["many"]]
    assert [dot.x for dot in theirs.dots] == [places["many"]]
    zero, top = dict(chart.ticks)["0"], dict(chart.ticks)["40"]
    assert [dot.y for dot in mine.dots] == pytest.approx([zero + (top - zero) / 4, top])
    assert theirs.dots[0].y == pytest.approx((zero + top) / 2)


def test_the_best_are_drawn_in_the_order_given_and_the_others_counted():
    chart = draw_lines(["all"], {f"m{i}": means(i / 10) for i in range(9)})
    assert [line.label for line in chart.lines] == [f"m{i}" for i in range(3, 9)]
    assert chart.left_out == 3
    assert draw_lines(["all"], {"mine": means(None)}) is None


def test_an_interval_stands_around_its_dot_where_it_is_known():
    assert take_mean([], seed=0) is None
    assert take_mean([1, 0], seed=0) == Mean(0.5, None, None, 2)
    mean = take_mean([1, 0, 1, 1] * 10, seed=0)
    [dot] = draw_lines(["all"], {"mine": [mean]}).lines[0].dots
    assert dot.high_y < dot.y < dot.low_y <= LINE_HEIGHT


def test_intervals_of_two_lines_are_whole_and_beside_each_other():
    wide = [Mean(0.3, 0.1, 0.58, 20)]
    chart = draw_lines(["all"], {"mine": wide, "theirs": wide})
    assert chart.with_intervals
    [mine], [theirs] = (line.dots for line in chart.lines)
    assert mine.x < theirs.x
    assert mine.high_y == theirs.high_y > 0
    many = draw_lines(["all"], {str(i): wide for i in range(3)})
    assert not many.with_intervals
    assert len({line.dots[0].x for line in many.lines}) == 1


@given(st.lists(st.floats(0, 150), max_size=6))
def test_names_keep_their_distance_and_order(places):
    moved = spread(places, 13, 150)
    pairs = sorted(zip(places, moved, strict=True))
    for (_, one), (_, other) in pairwise(pairs):
        assert other - one >= 13 - 0.11
    assert all(-0.1 <= place <= 150.1 for place in moved)
    assert spread([100, 20, 60], 13, 150) == [100, 20, 60], "these are apart"
