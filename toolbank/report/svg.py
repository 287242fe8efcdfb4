"""Lay out curves, lines and maps as SVG coordinates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toolbank.bank.bank import Bank
from toolbank.evaluation.figures import mean_intervals
from toolbank.report.vectors import Space, Vectors
from toolbank.system.numbers import unsigned

CURVE_WIDTH, CURVE_HEIGHT = 320.0, 120.0
_POINTS = 161


@dataclass(frozen=True)
class Curve:
    """A distribution: its outline in a box of WIDTH x HEIGHT, and the place of its median."""

    label: str
    outline: str
    median: float
    median_x: float
    median_y: float
    n: int


@dataclass(frozen=True)
class Overlay:
    """Distributions on one axis; `ticks` are (text, x)."""

    curves: tuple[Curve, ...]
    ticks: tuple[tuple[str, float], ...]


def overlay(
    samples: Sequence[tuple[str, ArrayLike]],
    limits: tuple[float, float] | None = None,
) -> Overlay | None:
    """Estimate Gaussian kernel densities (Silverman's bandwidth) of labelled samples on one scale.

    Samples of fewer than two values are skipped; None if none is left.
    """
    arrays = [
        (label, np.asarray(values, dtype=np.float64)) for label, values in samples
    ]
    arrays = [(label, values) for label, values in arrays if len(values) > 1]
    if not arrays:
        return None
    together = np.concatenate([values for _, values in arrays])
    low, high = limits or (float(together.min()), float(together.max()))
    if high <= low:
        low, high = low - 1, high + 1
    grid = np.linspace(low, high, _POINTS)
    densities = [_density(values, grid, (high - low) / 100) for _, values in arrays]
    top = max(float(density.max()) for density in densities) or 1.0
    curves = [
        _curve(label, values, grid, density / top)
        for (label, values), density in zip(arrays, densities, strict=True)
    ]
    ticks = tuple(
        (f"{tick:g}", round(CURVE_WIDTH * (tick - low) / (high - low), 1))
        for tick in round_ticks(low, high)
    )
    return Overlay(tuple(curves), ticks)


def round_ticks(low: float, high: float) -> list[float]:
    """Choose three to seven round numbers from `low` to `high`."""
    power = 10.0 ** math.floor(math.log10((high - low) / 3))
    step = next(
        power * part for part in (5, 2, 1) if (high - low) / (power * part) >= 3
    )
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(step * number, 10) for number in range(first, last + 1)]


def _density(
    values: NDArray[np.float64], grid: NDArray[np.float64], narrowest: float
) -> NDArray[np.float64]:
    spread = float(values.std(ddof=1))
    bandwidth = max(1.06 * spread * len(values) ** -0.2, narrowest)
    counted, weights = np.unique(values, return_counts=True)
    distance = (grid[:, None] - counted) / bandwidth
    density: NDArray[np.float64] = np.exp(-0.5 * distance**2) @ weights
    density /= len(values) * bandwidth
    return density


def _curve(
    label: str,
    values: NDArray[np.float64],
    grid: NDArray[np.float64],
    heights: NDArray[np.float64],
) -> Curve:
    xs = np.linspace(0, CURVE_WIDTH, len(grid))
    ys = CURVE_HEIGHT * (1 - heights)
    outline = "M" + " L".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))
    median = float(np.median(values))
    x = float(np.interp(median, grid, xs))
    return Curve(
        label=label,
        outline=outline,
        median=median,
        median_x=x,
        median_y=float(np.interp(x, xs, ys)),
        n=len(values),
    )


LINE_WIDTH, LINE_HEIGHT = 216.0, 150.0
_MOST_LINES = 6
_MOST_INTERVALS = 2
_BESIDE = 5.0
_LABEL_HEIGHT = 13.0
_RESAMPLES = 1000


@dataclass(frozen=True)
class Mean:
    """A mean from 0 to 1 of n values, with its 95 % interval if it is known."""

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
class PlotLine:
    """The dots of one method, and the height of its label."""

    label: str
    dots: tuple[Dot, ...]
    label_y: float


@dataclass(frozen=True)
class LineChart:
    """Lines in a box of WIDTH x HEIGHT.

    `groups` are (text, x) below the box, `ticks` (text, y) next to it. `left_out` counts the lines
    with the lowest means, for which there is no room. `with_intervals`: intervals are drawn,
    because there are few lines.
    """

    lines: tuple[PlotLine, ...]
    groups: tuple[tuple[str, float], ...]
    ticks: tuple[tuple[str, float], ...]
    left_out: int
    with_intervals: bool


def take_mean(values: Sequence[float], seed: int) -> Mean | None:
    """Compute the mean of values from 0 to 1, with its interval; None without values."""
    if not values:
        return None
    [(low, high)] = mean_intervals(np.array(values)[:, None], _RESAMPLES, seed)
    return Mean(float(np.mean(values)), low, high, len(values))


def draw_lines(
    groups: Sequence[str], means: Mapping[str, Sequence[Mean | None]]
) -> LineChart | None:
    """Draw a line per label with a dot per group; None if there is nothing to draw.

    Groups have equal distances; the axis ends above everything that is drawn.
    """
    kept = {label: [one for one in row if one] for label, row in means.items()}
    kept = {label: row for label, row in kept.items() if row}
    if not kept:
        return None
    order = sorted(
        kept, key=lambda label: -float(np.mean([m.value for m in kept[label]]))
    )
    # In the given order, so that a method has the same colour in every chart.
    chosen = [label for label in kept if label in order[:_MOST_LINES]]
    with_intervals = len(chosen) <= _MOST_INTERVALS
    tops = [
        mean.high if with_intervals and mean.high is not None else mean.value
        for label in chosen
        for mean in kept[label]
    ]
    end = math.ceil(max(*tops, 0.05) * 10) / 10
    # Intervals of two lines are drawn next to each other.
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
        tuple(map(PlotLine, chosen, rows, labels_y)),
        tuple((text, round(x, 1)) for text, x in zip(groups, xs, strict=True)),
        tuple((f"{tick:g}", place(tick / 100)) for tick in round_ticks(0, 100 * end)),
        len(order) - len(chosen),
        with_intervals,
    )


def spread(places: Sequence[float], gap: float, end: float) -> list[float]:
    """Move places apart to at least `gap`, within 0 and `end`, and keep their order.

    If they do not fit, they go beyond 0.
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


_MOST_TOOLS = 1000
_PERPLEXITY = 30
_FEWEST = 4
_SAME = 1e-6


@dataclass(frozen=True)
class Point:
    """A dot of the map, with both coordinates from 0 to 1; `group` decides its colour."""

    x: float
    y: float
    title: str
    group: str


def lay_out(space: Space, bank: Bank, seed: int) -> dict[str, list[Point]]:
    """Lay out queries, tools by their vectors, and tools by their descriptions with t-SNE.

    See van der Maaten and Hinton (2008), and arXiv 2409.02141. The means that methods remove from
    requests are added again, so that all are in one space. The group of a tool is its module. Empty
    if there is too little to draw.
    """
    n = len(bank.tools)
    # Evenly spread, if there are too many.
    positions = sorted({round(i) for i in np.linspace(0, n - 1, min(n, _MOST_TOOLS))})
    tools = [bank.tools[i] for i in positions]
    parts = {"queries": space.query_vectors}
    for name, method in space.methods.items():
        parts[name] = method.restore()[positions]
    plane = embed(np.concatenate(list(parts.values())), seed)
    if plane is None:
        return {}
    points: dict[str, list[Point]] = {}
    start = 0
    for name, vectors in parts.items():
        rows = plane[start : start + len(vectors)].tolist()
        start += len(vectors)
        if name == "queries":
            told = [(query.query, "") for query in space.queries]
        else:
            told = [
                (f"{tool.name}: {tool.summary}", tool.name.rpartition(".")[0])
                for tool in tools
            ]
        points[name] = [
            Point(x, y, *about) for (x, y), about in zip(rows, told, strict=True)
        ]
    return points


def embed(vectors: Vectors, seed: int) -> NDArray[np.float64] | None:
    """Compute coordinates [n, 2] from 0 to 1 with t-SNE, deterministically for a seed.

    None for fewer than four vectors, and if all are the same. It starts with the first two
    principal components.
    """
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    # The first step is scaled by the spread; without any, the process would crash.
    if len(vectors) < _FEWEST or np.ptp(vectors, axis=0).max() < _SAME:
        return None
    # With several threads, the order of sums varies.
    with threadpool_limits(1):
        plane = TSNE(
            perplexity=min(_PERPLEXITY, (len(vectors) - 1) / 3),
            init="pca",
            random_state=unsigned(seed, bits=32),
        ).fit_transform(vectors)
    plane = plane.astype(np.float64)
    low, high = plane.min(axis=0), plane.max(axis=0)
    scaled: NDArray[np.float64] = (plane - low) / np.where(high > low, high - low, 1.0)
    return scaled
