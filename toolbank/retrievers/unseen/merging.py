"""Unseen tools by their own log-odds, among hits by the log-odds of their ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toolbank.ranking.ties import Order
from toolbank.ranking.topk import Hits, top_k

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


def merge_unseen(
    hits: NDArray[np.int64],
    by_rank: NDArray[np.float64],
    unseen: NDArray[np.int64],
    odds: NDArray[np.float32],
    order: Order,
) -> Hits:
    """Hits [n, k] with unseen tools where their own log-odds put them.

    A hit has the log-odds of its rank; an unseen tool those of `odds` [n, n_unseen], if they are
    better. Scores are log-odds; `order` [n, n_tools] is as of `top_k`.
    """
    k = hits.shape[1]
    ranks = np.arange(k)
    falling = by_rank[np.minimum(ranks, len(by_rank) - 1)] - _FALL * ranks
    scores = np.full(order.shape, -np.inf, np.float32)
    np.put_along_axis(scores, hits, falling.astype(np.float32)[None], axis=1)
    scores[:, unseen] = np.maximum(scores[:, unseen], odds)
    return top_k(scores, k, order)
