"""95 % intervals of means over queries, by what can be known of the values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.ranking import wilson_interval
from toolbank.evaluation.bootstrap import bootstrap_means

FEWEST = 10
"""Queries below which no interval is given: it would say next to nothing, or too much."""

# Where so many values differ from the rest, and all to one side, a sign test is sure at 5 %
# (2 / 2^6). Where fewer do, drawing them again says more than is known.
_FEWEST_OTHERS = 6

Interval = tuple[float, float] | tuple[None, None]


def mean_intervals(
    values: NDArray[np.float64], resamples: int, seed: int
) -> list[Interval]:
    """95 % intervals of the means of the columns of `values` [n, m], from 0 to 1.

    - of fewer than `FEWEST` values: none, (None, None)
    - of zeros and ones: Wilson's, of the share of ones (1927)
    - where fewer than six values differ from the rest: Wilson's too, of the mean. It is not too
      narrow, since values from 0 to 1 of mean m have a variance of m (1 - m) at most; a bootstrap
      has no width there, or next to none
    - else: the percentile bootstrap, the same resamples for every column (Efron 1979)
    """
    n, columns = values.shape
    if n < FEWEST:
        return [(None, None)] * columns
    low, high = bootstrap_means(values, resamples, seed)
    return [
        wilson_interval(float(column.sum()), n)
        if set(column) <= {0.0, 1.0} or _count_others(column) < _FEWEST_OTHERS
        else (float(low[i]), float(high[i]))
        for i, column in enumerate(values.T)
    ]


def difference_intervals(
    values: NDArray[np.float64], resamples: int, seed: int
) -> list[Interval]:
    """95 % intervals of the means of the columns of paired differences [n, m], from -1 to 1.

    - of fewer than `FEWEST` values: none, (None, None)
    - where all values are the same: others, anywhere, may have the share that is the upper end of
      Wilson's interval of 0 among n, as in the rule of three (Hanley and Lippman-Hand 1983)
    - else: the percentile bootstrap
    """
    n, columns = values.shape
    if n < FEWEST:
        return [(None, None)] * columns
    low, high = bootstrap_means(values, resamples, seed)
    _, unseen = wilson_interval(0, n)
    return [
        (float(low[i]), float(high[i]))
        if _count_others(column)
        else (
            column[0] - unseen * (column[0] + 1),
            column[0] + unseen * (1 - column[0]),
        )
        for i, column in enumerate(values.T.tolist())
    ]


def _count_others(values: NDArray[np.float64] | list[float]) -> int:
    """How many values are not the most frequent one."""
    _, counts = np.unique(values, return_counts=True)
    return int(counts.sum() - counts.max())
