"""Recall, nDCG, MRR and COMP, a value a query, and recall where a twin counts.

All but the last take `found` [n, depth], whether the hit at each rank is one of the query's tools,
and `n_gold` [n], how many tools the query needs (at least 1).
"""

from collections.abc import Collection, Mapping, Sequence

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


def find_filled(
    hits: NDArray[np.int64], places: Sequence[Mapping[int, Collection[int]]]
) -> Found:
    """Whether each of `hits` [n, depth] fills a place of its query that those before leave.

    `places` are, for each query, its needed tools and what may stand for each. Every tool fills
    one place at most, and so many places are filled by the first k hits as any choice among them
    can fill: an augmenting path is looked for at every hit (Kuhn 1955). Hits are padded with -1.
    """
    found = np.zeros(hits.shape, dtype=np.bool_)
    for row, ranked, of_query in zip(found, hits.tolist(), places, strict=True):
        fits: dict[int, list[int]] = {}
        for place, (needed, others) in enumerate(of_query.items()):
            for tool in {needed, *others}:
                fits.setdefault(tool, []).append(place)
        filled: dict[int, int] = {}
        for rank, tool in enumerate(ranked):
            if tool in fits:
                row[rank] = _fill(tool, fits, filled, set())
    return found


def _fill(
    tool: int, fits: Mapping[int, list[int]], filled: dict[int, int], tried: set[int]
) -> bool:
    """Give a tool a place, others making way where they can."""
    for place in fits[tool]:
        if place not in tried:
            tried.add(place)
            if place not in filled or _fill(filled[place], fits, filled, tried):
                filled[place] = tool
                return True
    return False


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


def recall_or_twin(
    hits: NDArray[np.int64],
    gold: NDArray[np.int64],
    first_twins: NDArray[np.int64],
    k: int,
) -> Values:
    """Recall@k where a tool counts as found if it or a twin of it is among the first k hits.

    The share of a query's tools in `gold` [n, most] for which that is so, over all of them, as of
    `recall`: each is looked for by itself, so that one hit is enough for several that are twins of
    each other. `hits` [n, depth] and `gold` are positions of tools, padded with -1; `first_twins`
    [n_tools] is as of `find_first_twins`. A position past its end is of a name that nothing can
    find, and has no twin. Where there are no twins it equals `recall`.
    """
    lost = np.arange(len(first_twins), gold.max(initial=-1) + 1)
    first = np.concatenate([first_twins, lost])
    found = first[hits[:, :k]]
    found[hits[:, :k] < 0] = -1
    needed = first[gold]
    near = (needed[:, :, None] == found[:, None, :]).any(axis=2) & (gold >= 0)
    return np.asarray(near.sum(axis=1) / (gold >= 0).sum(axis=1), dtype=np.float64)
