"""Percentile bootstrap over queries."""

import numpy as np
from numpy.typing import NDArray

from toolbank.system.numbers import unsigned

_BLOCK_DRAWS = 4_000_000


def bootstrap_means(
    values: NDArray[np.float64], resamples: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """95 % percentile intervals of the means of the columns of `values` [n, m], n > 0.

    Queries are drawn with replacement, the same ones for every column (Efron 1979). Returns
    the lower and upper ends, both [m]. The same seed gives the same intervals.
    """
    n, m = values.shape
    random = np.random.default_rng(unsigned(seed))
    means = np.empty((resamples, m))
    size = max(1, _BLOCK_DRAWS // n)
    for start in range(0, resamples, size):
        rows = min(size, resamples - start)
        drawn = random.integers(n, size=(rows, n)) + np.arange(rows)[:, None] * n
        counts = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n)
        means[start : start + rows] = counts @ values / n
    low, high = np.quantile(means, (0.025, 0.975), axis=0)
    return low, high
