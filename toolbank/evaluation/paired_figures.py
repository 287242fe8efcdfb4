"""Figures of two banks with their differences, by the jackknife."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.ranking import wilson_interval
from toolbank.evaluation.figures import FEWEST
from toolbank.evaluation.paired import holm

Better = Literal["higher", "lower", ""]
"""Which value of a figure is the better one; "" if neither is."""

Unit = Literal["share", "number"]

Rows = NDArray[np.int64]
OfRows = Callable[[Rows], float]
"""Computes a figure from the positions of some of the units of a bank; NaN if none has it."""

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
    units are too few, or if they do not differ (`compare_figure`). `adjusted` is p after Holm's
    correction for all figures of the comparison.
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


def ratio_of(sums: NDArray[np.float64]) -> OfRows:
    """Return the figure that divides the sum of numerators by that of denominators, [units, 2]."""

    def divide(rows: Rows) -> float:
        over, under = sums[rows].sum(axis=0).tolist()
        return over / under if under else float("nan")

    return divide


def compare_figure(
    kind: FigureKind,
    a: OfRows,
    b: OfRows,
    units: tuple[int, int],
    *,
    paired: bool,
    n: int | None = None,
) -> PairedFigure:
    """Compare a figure of two banks with so many units each, by the jackknife.

    The figure is computed again without each of up to 100 groups of units. A bootstrap would draw
    units twice, which makes every set less varied than it is. The jackknife's variance is on
    average too large rather than too small (Efron and Stein 1981). With `paired`, unit i of both
    banks is left out together. The interval and p are those of Student's t. `n` is the number of
    units with a value, if not all have one.

    If leaving units out changes nothing, a share of 0 % or 100 % in both banks has the interval of
    the rule of three (Hanley and Lippman-Hand 1983) and the p of the sign test; another figure has
    none.
    """
    from scipy.stats import t

    values = (
        float(of(np.arange(size))) if size else float("nan")
        for of, size in zip((a, b), units, strict=True)
    )
    of_a, of_b = (None if np.isnan(value) else value for value in values)
    figure = PairedFigure(kind, of_a, of_b, min(units) if n is None else n)
    difference = figure.difference
    if difference is None or figure.n < FEWEST:
        return figure
    size = min(_GROUPS, *units)
    parts = [
        np.array([of(rows[rows % size != group]) for group in range(size)])
        for of, rows in ((a, np.arange(units[0])), (b, np.arange(units[1])))
    ]
    if paired:
        parts = [parts[1] - parts[0]]
    error = float(np.sqrt((size - 1) * sum(part.var() for part in parts)))
    if np.isnan(error):
        return figure
    if error > 1e-12:
        wide = float(t.ppf(1 - _LEVEL / 2, size - 1)) * error
        low, high = difference - wide, difference + wide
        p = float(2 * t.sf(abs(difference) / error, size - 1))
    elif kind.unit == "share" and difference in (-1, 0, 1):
        _, unseen = wilson_interval(0, figure.n)
        low = difference - unseen * (1 + difference)
        high = difference + unseen * (1 - difference)
        p = 2 * 0.5**figure.n if difference else 1.0
    else:
        return figure
    if kind.unit == "share":
        low, high = max(low, -1.0), min(high, 1.0)
    return replace(figure, low=low, high=high, p=p)
