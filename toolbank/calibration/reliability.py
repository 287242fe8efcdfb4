"""How far probabilities are from what happens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_BINS = 10


@dataclass(frozen=True)
class Reliability:
    """Probabilities by bins of equal width [n_bins]; those of empty bins are left out.

    `said` is the mean probability, `happened` the share of what held, `counts` how many there are.
    """

    said: NDArray[np.float64]
    happened: NDArray[np.float64]
    counts: NDArray[np.int64]

    @property
    def error(self) -> float:
        """Expected calibration error: the mean distance, by counts (arXiv 1706.04599, eq. 3)."""
        if not len(self.counts):
            return 0.0
        return float(np.average(np.abs(self.said - self.happened), weights=self.counts))


def measure_reliability(
    chances: NDArray[np.floating], holds: NDArray[np.bool_], bins: int = _BINS
) -> Reliability:
    """Hold probabilities [n], from 0 to 1, against what held [n]."""
    numbers = np.minimum((chances * bins).astype(np.int64), bins - 1)
    counts = np.bincount(numbers, minlength=bins)
    filled = counts > 0
    said = np.bincount(numbers, chances, bins)[filled] / counts[filled]
    happened = np.bincount(numbers, holds, bins)[filled] / counts[filled]
    return Reliability(said, happened, counts[filled])
