"""From scores to the best k, exactly, whatever the order of the columns."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolbank.ranking.ties import Order, Ties

Hits = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Indices of tools and their scores, two arrays [n_queries, k], best first.

Where a request has fewer hits, its row is filled up with -1 and -inf.
"""

_BLOCK_SCORES = 4_000_000


def top_k(
    scores: NDArray[np.float32], k: int, order: Order | Ties | None = None
) -> Hits:
    """The best min(k, m) columns of each row of `scores` [n, m].

    Of columns of the same score, that of the lesser `order` [n, m] comes first. `Ties` draw it for
    tools, of which only those that may be among the best are looked at; without any, it is that of
    the columns.

    What is not a number comes last.

    Returns indices and scores, both [n, min(k, m)].
    """
    n, m = scores.shape
    k = min(k, m)
    indices = np.zeros((n, k), np.int64)
    for row in range(n if k else 0):
        values = scores[row]
        if np.isnan(values).any():
            values = np.where(np.isnan(values), -np.inf, values)
        least = np.partition(values, m - k)[m - k]
        near = np.flatnonzero(values >= least)
        lots: NDArray[np.integer[Any]] = near
        if isinstance(order, Ties):
            lots = order.order_in(row, near)
        elif order is not None:
            lots = order[row, near]
        indices[row] = near[np.lexsort((lots, -values[near]))[:k]]
    return indices, np.take_along_axis(scores, indices, axis=1)


def cosine_scores(
    queries: NDArray[np.float32], vectors: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Cosines [n, m] of unit vectors [n, d] and [m, d].

    Rounded to six decimals: what differs by less differs by the arithmetic's order only.
    """
    return np.round(queries @ vectors.T, 6)


def blocks(n_queries: int, n_columns: int) -> list[slice]:
    """Slices of the queries such that a block's score matrix stays small."""
    size = max(1, _BLOCK_SCORES // max(n_columns, 1))
    return [slice(start, start + size) for start in range(0, n_queries, size)]


def join(parts: list[Hits], k: int) -> Hits:
    """Hits of blocks as the hits of all; of none, two empty arrays [0, k]."""
    if not parts:
        return np.zeros((0, k), np.int64), np.zeros((0, k), np.float32)
    indices, scores = zip(*parts, strict=True)
    return np.concatenate(indices), np.concatenate(scores)


def by_rank(indices: NDArray[np.int64]) -> Hits:
    """Hits of these indices [n, k], the score of rank r, from 1, being 1 / r; -1 fills rows up."""
    scores = 1 / np.arange(1, indices.shape[1] + 1, dtype=np.float32)
    return indices, np.where(indices >= 0, scores, np.float32(-np.inf))


def rank_blocks(
    score: Callable[[slice], NDArray[np.float32]], ties: Ties, k: int, width: int = 0
) -> Hits:
    """Hits [n_queries, min(k, n_tools)] by `score`, which gives [n, n_tools] of some queries.

    It is asked for block after block, so that memory holds few scores at once; `width` is of
    how many numbers it makes one query's scores, if they are more than these.
    """
    n_tools = len(ties.tools)
    parts = [
        top_k(score(rows), k, ties.of(rows))
        for rows in blocks(len(ties), max(n_tools, width))
    ]
    return join(parts, min(k, n_tools))


def search_vectors(
    queries: NDArray[np.float32], vectors: NDArray[np.float32], ties: Ties, k: int
) -> Hits:
    """The k nearest of `vectors` [m, d] to each of `queries` [n, d] by cosine, exactly."""
    return rank_blocks(lambda rows: cosine_scores(queries[rows], vectors), ties, k)


def rank_gold(
    score: Callable[[slice], NDArray[np.float32]], ties: Ties, gold: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The rank [n_queries], from 1, of the one column that is right for each query.

    Among all columns, in the order of `rank_blocks`, without sorting them. `gold` [n_queries] are
    the columns.
    """
    parts = [np.zeros(0, np.int64)]
    for rows in blocks(len(ties), len(ties.tools)):
        scores, order = score(rows), ties.order(rows)
        right = gold[rows, None]
        own, own_order = (np.take_along_axis(a, right, axis=1) for a in (scores, order))
        before = (scores > own) | ((scores == own) & (order < own_order))
        parts.append(1 + before.sum(axis=1))
    return np.concatenate(parts)
