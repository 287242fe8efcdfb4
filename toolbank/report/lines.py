"""Lines over groups, as coordinates of SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from toolbank.evaluation.figures import mean_intervals
from toolbank.report.curves import round_ticks

LINE_WIDTH, LINE_HEIGHT = 216.0, 150.0
_MOST_LINES = 6
_MOST_INTERVALS = 2
_BESIDE = 5.0
_LABEL_HEIGHT = 13.0
_RESAMPLES = 1000


@dataclass(frozen=True)
class Mean:
    """A mean from 0 to 1 of n values, with its 95 % interval where that can be told."""

    value: float
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class Dot:
    """A mean at its place; `low_y` and `high_y` are the ends of the interval, or its own y."""

    mean: Mean
    x: float
    y: float
    low_y: float
    high_y: float


@dataclass(frozen=True)
class Line:
    """The dots of one method; its name stands at `label_y`."""

    label: str
    dots: tuple[Dot, ...]
    label_y: float


@dataclass(frozen=True)
class LineChart:
    """Lines in a box of WIDTH x HEIGHT.

    `groups` are (text, x) below the box, `ticks` (text, y) beside it. `left_out` counts the lines
    for which there is no room, those of the lowest means. `with_intervals`: they are few enough
    for these to be drawn.
    """

    lines: tuple[Line, ...]
    groups: tuple[tuple[str, float], ...]
    ticks: tuple[tuple[str, float], ...]
    left_out: int
    with_intervals: bool


def take_mean(values: Sequence[float], seed: int) -> Mean | None:
    """The mean of values from 0 to 1; None of none."""
    if not values:
        return None
    [(low, high)] = mean_intervals(np.array(values)[:, None], _RESAMPLES, seed)
    return Mean(float(np.mean(values)), low, high, len(values))


def draw_lines(
    groups: Sequence[str], means: Mapping[str, Sequence[Mean | None]]
) -> LineChart | None:
    """A line for each label, a dot for each of the groups; None where there is nothing to draw.

    The groups stand at equal distances, the axis ends above all that is drawn.
    """
    kept = {label: [one for one in row if one] for label, row in means.items()}
    kept = {label: row for label, row in kept.items() if row}
    if not kept:
        return None
    order = sorted(
        kept, key=lambda label: -float(np.mean([m.value for m in kept[label]]))
    )
    # In the order given, so that a method has the same colour in every chart.
    chosen = [label for label in kept if label in order[:_MOST_LINES]]
    with_intervals = len(chosen) <= _MOST_INTERVALS
    tops = [
        mean.high if with_intervals and mean.high is not None else mean.value
        for label in chosen
        for mean in kept[label]
    ]
    end = math.ceil(max(*tops, 0.05) * 10) / 10
    # Intervals of two lines stand beside each other.
    beside = _BESIDE if with_intervals else 0.0
    xs = [LINE_WIDTH * (i + 0.5) / len(groups) for i in range(len(groups))]

    def place(share: float) -> float:
        return round(LINE_HEIGHT * (1 - min(share / end, 1.0)), 1)

    rows = [
        tuple(
            Dot(
                mean,
                round(x + beside * (number - (len(chosen) - 1) / 2), 1),
                place(mean.value),
                place(mean.value if mean.low is None else mean.low),
                place(mean.value if mean.high is None else mean.high),
            )
            for x, mean in zip(xs, means[label], strict=True)
            if mean
        )
        for number, label in enumerate(chosen)
    ]
    labels_y = spread([dots[-1].y for dots in rows], _LABEL_HEIGHT, LINE_HEIGHT)
    return LineChart(
        tuple(map(Line, chosen, rows, labels_y)),
        tuple((text, round(x, 1)) for text, x in zip(groups, xs, strict=True)),
        tuple((f"{tick:g}", place(tick / 100)) for tick in round_ticks(0, 100 * end)),
        len(order) - len(chosen),
        with_intervals,
    )


def spread(places: Sequence[float], gap: float, end: float) -> list[float]:
    """The places, moved as little as it takes for `gap` between them, within 0 and `end`.

    Which is above which stays. Where they don't fit, they go beyond 0.
    """
    order = sorted(range(len(places)), key=lambda i: places[i])
    moved: list[float] = []
    for i in order:
        moved.append(max(places[i], moved[-1] + gap if moved else 0.0))
    for back in range(len(moved) - 1, -1, -1):
        moved[back] = min(
            moved[back], moved[back + 1] - gap if back + 1 < len(moved) else end
        )
    found = dict(zip(order, moved, strict=True))
    return [round(found[i], 1) for i in range(len(places))]
