"""Log-odds of ProTIP's hits by their ranks: distances of different steps can't be compared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

RANKS = 20
"""How many are measured; those after them are taken to be like the last."""

_FALL = 1e-4


def measure_ranks(
    hits: NDArray[np.int64], plans: Sequence[Sequence[int]]
) -> NDArray[np.float64]:
    """Log-odds [ranks] that the hit of a rank is one of the plan's tools; they never rise.

    `hits` [n, ranks] are what was found for the requests of `plans`, the indices of their tools.
    """
    right = np.array(
        [np.isin(row, plan) for row, plan in zip(hits, plans, strict=True)]
    ).sum(axis=0)
    odds = (right + 0.5) / (len(plans) - right + 0.5)
    return np.minimum.accumulate(np.log(odds))


def score_hits(
    hits: NDArray[np.int64], by_rank: NDArray[np.float64], n_tools: int
) -> NDArray[np.float32]:
    """Log-odds [n, n_tools] of hits [n, k] by their ranks, which always fall; -inf of the rest."""
    ranks = np.arange(hits.shape[1])
    falling = by_rank[np.minimum(ranks, len(by_rank) - 1)] - _FALL * ranks
    scores = np.full((len(hits), n_tools), -np.inf, np.float32)
    np.put_along_axis(scores, hits, falling.astype(np.float32)[None], axis=1)
    return scores
