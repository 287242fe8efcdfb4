"""Paired comparisons over seeds: intervals, p-values, and Holm's correction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolbank.evaluation.figures import FEWEST, difference_intervals
from toolbank.system.numbers import unsigned

RESAMPLES = 10_000
"""Bootstrap resamples of a test. The smallest p-value is 2 / (RESAMPLES + 1)."""

_BLOCK_DRAWS = 4_000_000
# Means that differ by less are equal: sums of the same values in another order.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class SeedDifference:
    """The mean difference between two methods over requests and seeds, paired by both.

    `difference` is from -1 to 1: the mean over the seeds of each seed's mean. `low` and `high` are
    the ends of its 95 % interval and `p` the two-sided p-value of no difference; all three are
    None if fewer than `FEWEST` requests were compared. `n` counts the different requests. If
    `seeds` is 1, the interval says nothing about other seeds.
    """

    difference: float
    low: float | None
    high: float | None
    p: float | None
    n: int
    seeds: int


def compare_columns(
    differences: NDArray[np.float64], *, resamples: int = RESAMPLES, seed: int = 0
) -> list[SeedDifference]:
    """Compare m pairs of methods, each by a slice of `differences` [seeds, n, m].

    NaN marks a request that a seed lacks.

    The interval is the percentile interval of a bootstrap that draws seeds and requests, each with
    replacement: a request drawn twice counts twice under every seed (the pigeonhole bootstrap, Owen
    2007, which allows for missing values). Of S seeds, S - 1 are drawn, or the variance between
    seeds would be too small by a factor of (S - 1) / S (Rao and Wu 1988). The p-value is twice the
    smaller share of resamples on either side of 0 (Davison and Hinkley 1997, equation 4.11). If no
    difference deviates from the others, the interval is that of `difference_intervals`. All pairs
    have the same resamples, and the same seed gives the same intervals.

    Raises:
        ValueError: there is no seed, or one without a request.
    """
    present = ~np.isnan(differences)
    if not len(differences) or not present.any(axis=1).all():
        raise ValueError("every seed needs at least one request")
    seeds = len(differences)
    means = np.nanmean(differences, axis=1).mean(axis=0)
    drawn = _draw_means(differences, present, resamples, seed)
    compared = []
    for column, mean in enumerate(means.tolist()):
        values = differences[:, :, column][present[:, :, column]]
        n = int(present[:, :, column].any(axis=0).sum())
        low, high, p = None, None, None
        if n >= FEWEST:
            low, high = np.quantile(drawn[:, column], (0.025, 0.975)).tolist()
            p = _find_p(drawn[:, column])
            if np.ptp(values) < _ROUNDING:
                alike = np.full((n, 1), mean)
                [(low, high)] = difference_intervals(alike, 1, seed)
                includes_0 = low is None or high is None or low <= 0 <= high
                p = 1.0 if includes_0 else p
        compared.append(SeedDifference(mean, low, high, p, n, seeds))
    return compared


def _find_p(drawn: NDArray[np.float64]) -> float:
    """Return the two-sided p-value of no difference, from resampled differences."""
    sides = (drawn <= _ROUNDING).sum(), (drawn >= -_ROUNDING).sum()
    return float(min(1.0, 2 * (1 + min(sides)) / (1 + len(drawn))))


def _draw_means(
    values: NDArray[np.float64],
    present: NDArray[np.bool_],
    resamples: int,
    seed: int,
) -> NDArray[np.float64]:
    """Draw means [resamples, m] of values [seeds, n, m] with seeds and requests resampled."""
    seeds, n, columns = values.shape
    random = np.random.default_rng(unsigned(seed))
    n_drawn = max(1, seeds - 1)
    chosen = random.integers(seeds, size=(resamples, n_drawn))
    weights = (chosen[:, :, None] == np.arange(seeds)).sum(axis=1) / n_drawn
    filled = np.where(present, values, 0.0)
    complete = present.all()
    means = np.zeros((resamples, columns))
    size = max(1, _BLOCK_DRAWS // n)
    for start in range(0, resamples, size):
        rows = min(size, resamples - start)
        picks = random.integers(n, size=(rows, n)) + np.arange(rows)[:, None] * n
        counts = np.bincount(picks.ravel(), minlength=rows * n).reshape(rows, n)
        for of_seed, there, weight in zip(filled, present, weights.T, strict=True):
            sums = counts @ of_seed
            total = np.full(sums.shape, n) if complete else counts @ there
            # A resample may have no request of a small seed; its mean stands in.
            own = np.broadcast_to(of_seed.sum(axis=0) / there.sum(axis=0), sums.shape)
            mean = np.divide(sums, total, out=own.copy(), where=total > 0)
            means[start : start + rows] += weight[start : start + rows, None] * mean
    return means


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjust the p-values of several tests (Holm 1979); a test without one does not count.

    A test whose adjusted value is at most 0.05 is significant, with a chance of at most 5 % that
    any of the significant ones is wrong.
    """
    adjusted: list[float | None] = [None] * len(p_values)
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    largest = 0.0
    for rank, (p, place) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * p))
        adjusted[place] = largest
    return adjusted
