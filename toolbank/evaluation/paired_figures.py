"""Figures of two banks with their differences, by bootstrap and by jackknife."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.ranking import wilson_interval
from toolbank.evaluation.figures import FEWEST
from toolbank.evaluation.paired import RESAMPLES, find_p, holm
from toolbank.system.numbers import unsigned

T = TypeVar("T")

Better = Literal["higher", "lower", ""]
"""Which value of a figure is the better one; "" if neither is."""

Unit = Literal["share", "number"]

Rows = NDArray[np.int64]
Sums = NDArray[np.float64]

_BLOCK = 2_000_000
# Of more units, neighbours are drawn together.
_MOST_DRAWN = 2_000
_GROUPS = 100
_LEVEL = 0.05


@dataclass(frozen=True)
class FigureKind:
    """What a figure of a bank is: its section and name, its unit, and which value is better."""

    section: str
    name: str
    unit: Unit
    better: Better


@dataclass(frozen=True)
class PairedFigure:
    """A figure of two banks, A and B; `difference` is that of B minus A.

    `low` and `high` are the ends of its 95 % interval, and `p` is two-sided; all are None if `n`
    units are too few. `adjusted` is p after Holm's correction for all figures of the comparison.
    """

    kind: FigureKind
    a: float | None
    b: float | None
    n: int
    low: float | None = None
    high: float | None = None
    p: float | None = None
    adjusted: float | None = None

    @property
    def difference(self) -> float | None:
        """B minus A."""
        return None if self.a is None or self.b is None else self.b - self.a

    @property
    def holds(self) -> bool:
        """Whether the difference is significant after the correction."""
        if self.adjusted is None or self.low is None or self.high is None:
            return False
        return self.adjusted <= _LEVEL and (self.low > 0 or self.high < 0)

    @property
    def winner(self) -> Literal["A", "B", ""]:
        """The better bank, if the difference holds and one value is better."""
        better = self.kind.better
        if not (self.holds and better and self.difference):
            return ""
        return "B" if (self.difference > 0) == (better == "higher") else "A"


def correct(figures: Sequence[PairedFigure]) -> list[PairedFigure]:
    """Add Holm's correction over all figures that have a p (Holm 1979)."""
    adjusted = holm([one.p for one in figures])
    return [replace(one, adjusted=p) for one, p in zip(figures, adjusted, strict=True)]


@dataclass(frozen=True)
class Measure(Generic[T]):
    """A kind of figure, and what it is computed from for each bank."""

    kind: FigureKind
    a: T
    b: T


def compare_ratios(
    measures: Sequence[Measure[Sums]], seed: int, *, paired: bool
) -> list[PairedFigure]:
    """Compare ratios, such as means, by the percentile bootstrap over units (Efron 1979).

    A measure has numerators and denominators [units, 2] of units such as candidate sets. The figure
    is the sum of the first divided by that of the second. With `paired`, unit i of A and of B are drawn together; else the units of A and B are drawn
    independently. All measures have the same units. p is twice the smaller share of resampled
    differences on one side of 0. If no resample differs, a share has the interval of the rule of
    three (Hanley and Lippman-Hand 1983).
    """
    if not measures:
        return []
    random = np.random.default_rng(unsigned(seed))
    sides = [np.stack([getattr(one, side) for one in measures]) for side in "ab"]
    if paired:
        both = _resample(np.concatenate(sides), random)
        drawn = np.split(both, 2)
    else:
        drawn = [_resample(side, random) for side in sides]
    units = [side.shape[1] for side in sides]
    return [
        _summarise(one, drawn[0][row], drawn[1][row], min(units))
        for row, one in enumerate(measures)
    ]


def _resample(sums: Sums, random: np.random.Generator) -> Sums:
    """The summed units [measures, resamples, 2] of bootstrap samples of [measures, units, 2]."""
    measures, n, _ = sums.shape
    flat = sums.transpose(1, 0, 2).reshape(n, 2 * measures)
    if n > _MOST_DRAWN:
        flat = np.add.reduceat(flat, np.linspace(0, n, _MOST_DRAWN, False, dtype=int))
        n = _MOST_DRAWN
    size = max(1, _BLOCK // n)
    blocks = [
        random.multinomial(n, np.full(n, 1 / n), min(size, RESAMPLES - start)) @ flat
        for start in range(0, RESAMPLES, size)
    ]
    return np.concatenate(blocks).reshape(-1, measures, 2).transpose(1, 0, 2)


def _summarise(measure: Measure[Sums], a: Sums, b: Sums, n: int) -> PairedFigure:
    values = [_divide(side.sum(axis=0)[None])[0] for side in (measure.a, measure.b)]
    a_now, b_now = (None if np.isnan(value) else float(value) for value in values)
    found = PairedFigure(measure.kind, a_now, b_now, n)
    difference = found.difference
    if difference is None:
        return found
    with_units = (int((side[:, 1] > 0).sum()) for side in (measure.a, measure.b))
    if min(with_units) < FEWEST:
        return found
    drawn = _divide(b) - _divide(a)
    drawn = drawn[~np.isnan(drawn)]
    if np.ptp(drawn) < 1e-12:
        unseen = wilson_interval(0, n)[1] if measure.kind.unit == "share" else 0.0
        low = difference - unseen * (1 + difference)
        high = difference + unseen * (1 - difference)
    else:
        low, high = np.quantile(drawn, (0.025, 0.975)).tolist()
    return replace(found, low=low, high=high, p=find_p(drawn))


def _divide(sums: Sums) -> Sums:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(sums[:, 1] > 0, sums[:, 0] / sums[:, 1], np.nan)


def compare_sets(
    measures: Sequence[Measure[Callable[[Rows], float]]], n: int, *, paired: bool
) -> list[PairedFigure]:
    """Compare figures that only a set has, such as the share of tools used, by the jackknife.

    A measure computes the figure from the positions of some of n requests of each bank; both have
    equally many, since such figures depend on the number. A bootstrap would draw requests twice,
    which makes every set less varied than it is. Leaving out one of up to 100 groups at a time does
    not, and its variance is on average too large rather than too small (Efron and Stein 1981). With
    `paired`, the same positions of both are left out together. Intervals and p are those of
    Student's t.
    """
    from scipy.stats import t

    if not n:
        return [PairedFigure(one.kind, None, None, 0) for one in measures]
    rows = np.arange(n)
    groups = rows % min(n, _GROUPS)
    left = [rows[groups != group] for group in range(min(n, _GROUPS))]
    wide = float(t.ppf(1 - _LEVEL / 2, len(left) - 1))
    found = []
    for one in measures:
        figure = PairedFigure(one.kind, float(one.a(rows)), float(one.b(rows)), n)
        difference = figure.difference
        if n >= FEWEST and difference is not None:
            a, b = (np.array([of(keep) for keep in left]) for of in (one.a, one.b))
            variances = [part.var() for part in ((b - a,) if paired else (a, b))]
            error = float(np.sqrt((len(left) - 1) * sum(variances)))
            scaled = abs(difference) / error if error else 0.0
            figure = replace(
                figure,
                low=difference - wide * error,
                high=difference + wide * error,
                p=float(2 * t.sf(scaled, len(left) - 1)),
            )
        found.append(figure)
    return found
