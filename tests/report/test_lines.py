from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbank.report.svg import LINE_HEIGHT, Mean, draw_lines, spread, take_mean


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


def test_names_that_are_apart_stay_where_they_are():
    assert spread([100, 20, 60], 13, 150) == [100, 20, 60]
