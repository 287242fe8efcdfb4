"""Recall, nDCG, MRR and COMP, a value a query.

All take `found` [n, depth], whether the hit at each rank is one of the query's tools, and
`n_gold` [n], how many tools the query needs (at least 1).
"""

import numpy as np
from numpy.typing import NDArray

Found = NDArray[np.bool_]
Values = NDArray[np.float64]


def find_gold(hits: NDArray[np.int64], gold: NDArray[np.int64]) -> Found:
    """Whether each of `hits` [n, depth] is in its query's row of `gold` [n, most].

    Both are padded with -1, which is no tool.
    """
    found = np.zeros(hits.shape, dtype=np.bool_)
    for column in gold.T:
        found |= hits == column[:, None]
    return found & (hits >= 0)


def recall(found: Found, n_gold: NDArray[np.int64], k: int) -> Values:
    """Recall@k: the share of a query's tools that are among the first k hits.

    The denominator is the number of the query's tools, also where it is above k.
    """
    return np.asarray(found[:, :k].sum(axis=1) / n_gold, dtype=np.float64)


def ndcg(found: Found, n_gold: NDArray[np.int64], k: int) -> Values:
    """nDCG@k with binary gains and the discount 1 / log2(rank + 1), ranks from 1.

    The ideal ranking has min(n_gold, k) tools at the top (Järvelin and Kekäläinen 2002).
    """
    discounts = 1 / np.log2(np.arange(k) + 2)
    ideal = np.cumsum(discounts)[np.minimum(n_gold, k) - 1]
    gains = found[:, :k] @ discounts[: found[:, :k].shape[1]]
    return np.asarray(gains / ideal, dtype=np.float64)


def mrr(found: Found) -> Values:
    """Reciprocal rank of the first hit that is one of the query's tools; 0 where none is.

    Over all ranks that were searched.
    """
    first = found.argmax(axis=1) if found.shape[1] else np.zeros(len(found), np.int64)
    return np.where(found.any(axis=1), 1 / (first + 1), 0.0)


def comp(found: Found, n_gold: NDArray[np.int64], k: int) -> Values:
    """COMP@k: 1 where all of a query's tools are among the first k hits, else 0.

    COLT, arXiv 2405.16089, section 4.1.2.
    """
    return np.asarray(found[:, :k].sum(axis=1) == n_gold, dtype=np.float64)
