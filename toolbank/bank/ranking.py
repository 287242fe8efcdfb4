"""Rank tools by scores, and compute retrieval metrics."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Order = NDArray[np.uint32]


@dataclass(frozen=True)
class Ties:
    """A pseudo-random order of the tools for each query, to break ties.

    It depends only on the query and the tool's name, so it is the same for any order of the tools
    in a file, and no tool is first for all queries.

    `queries` [n] and `tools` [m] are hashes.
    """

    queries: Order
    tools: Order

    def __len__(self) -> int:
        return len(self.queries)

    def of(self, rows: slice) -> Ties:
        """Select some queries."""
        return Ties(self.queries[rows], self.tools)

    def order(self, rows: slice = slice(None)) -> Order:
        """Return the order of all tools for these queries [n, m]; the least comes first."""
        return _mix(self.queries[rows, None] ^ self.tools)

    def order_in(self, row: int, tools: NDArray[np.int64]) -> Order:
        """Return the order of some tools [k], given by their positions, for one query."""
        return _mix(self.queries[row] ^ self.tools[tools])

    def order_of(self, tools: NDArray[np.int64]) -> Order:
        """Return the order of each query's own tools [n, k], given by their positions."""
        return _mix(self.queries[:, None] ^ self.tools[tools])


def draw_ties(queries: Sequence[str], tools: tuple[str, ...]) -> Ties:
    """Make the order of tools for queries, from their texts and names."""
    return Ties(hash_texts(queries), hash_texts(tools))


def hash_texts(texts: Iterable[str]) -> Order:
    """Hash texts [n], to break ties."""
    digests = (
        hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).digest()
        for text in texts
    )
    return np.frombuffer(b"".join(digests), "<u4")


def _mix(values: Order) -> Order:
    """Mix the bits of values, without collisions (finaliser of MurmurHash3)."""
    values = (values ^ (values >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    values = (values ^ (values >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return values ^ (values >> np.uint32(16))


Hits = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Indices of tools and their scores, two arrays [n_queries, k], best first.

Rows of queries with fewer hits are padded with -1 and -inf.
"""

_BLOCK_SCORES = 4_000_000


def top_k(
    scores: NDArray[np.float32], k: int, order: Order | Ties | None = None
) -> Hits:
    """Return the best min(k, m) columns of each row of `scores` [n, m].

    Ties are broken by the least `order` [n, m], computed only where needed if it is `Ties`, or else
    by the order of the columns. NaN comes last.

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
    """Compute the cosines [n, m] of unit vectors [n, d] and [m, d].

    Rounded to six decimals: smaller differences depend on the order of the arithmetic.
    """
    return np.round(queries @ vectors.T, 6)


def blocks(n_queries: int, n_columns: int) -> list[slice]:
    """Slice the queries so that the score matrix of a block stays small."""
    size = max(1, _BLOCK_SCORES // max(n_columns, 1))
    return [slice(start, start + size) for start in range(0, n_queries, size)]


def join(parts: list[Hits], k: int) -> Hits:
    """Concatenate the hits of blocks; without blocks, return empty arrays [0, k]."""
    if not parts:
        return np.zeros((0, k), np.int64), np.zeros((0, k), np.float32)
    indices, scores = zip(*parts, strict=True)
    return np.concatenate(indices), np.concatenate(scores)


def by_rank(indices: NDArray[np.int64]) -> Hits:
    """Make hits of indices [n, k] with the score 1 / rank; -1 is padding."""
    scores = 1 / np.arange(1, indices.shape[1] + 1, dtype=np.float32)
    return indices, np.where(indices >= 0, scores, np.float32(-np.inf))


def rank_blocks(
    score: Callable[[slice], NDArray[np.float32]], ties: Ties, k: int, width: int = 0
) -> Hits:
    """Rank tools by `score`, which returns [n, n_tools] for some queries.

    It is called block by block to save memory; `width` is the number of values that it computes
    per query, if they are more than the tools. Returns hits [n_queries, min(k, n_tools)].
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
    """Find the k nearest of `vectors` [m, d] to each of `queries` [n, d] by cosine, exactly."""
    return rank_blocks(lambda rows: cosine_scores(queries[rows], vectors), ties, k)


def rank_gold(
    score: Callable[[slice], NDArray[np.float32]], ties: Ties, gold: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Compute the rank [n_queries], from 1, of the gold column of each query, without sorting.

    The order is that of `rank_blocks`. `gold` [n_queries] are columns.
    """
    parts = [np.zeros(0, np.int64)]
    for rows in blocks(len(ties), len(ties.tools)):
        scores, order = score(rows), ties.order(rows)
        right = gold[rows, None]
        own, own_order = (np.take_along_axis(a, right, axis=1) for a in (scores, order))
        before = (scores > own) | ((scores == own) & (order < own_order))
        parts.append(1 + before.sum(axis=1))
    return np.concatenate(parts)


Found = NDArray[np.bool_]
Values = NDArray[np.float64]


def match_gold(hits: NDArray[np.int64], gold: NDArray[np.int64]) -> Found:
    """Say which of `hits` [n, depth] are in their row of `gold` [n, most]; -1 is padding."""
    found = np.zeros(hits.shape, dtype=np.bool_)
    for column in gold.T:
        found |= hits == column[:, None]
    return found & (hits >= 0)


def match_places(
    hits: NDArray[np.int64], places: Sequence[Mapping[int, Collection[int]]]
) -> Found:
    """Say which of `hits` [n, depth] fill a place of their query that earlier hits do not.

    `places` are, for each query, its needed tools and the alternatives to each. A tool fills at most
    one place, and the top k hits fill as many places as possible: each hit searches an augmenting
    path (Kuhn 1955). -1 is padding.
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
    """Assign a place to a tool; others move if they can."""
    for place in fits[tool]:
        if place not in tried:
            tried.add(place)
            if place not in filled or _fill(filled[place], fits, filled, tried):
                filled[place] = tool
                return True
    return False


def recall(found: Found, n_gold: NDArray[np.int64], k: int) -> Values:
    """Recall@k: the share of a query's tools among the top k hits.

    The denominator is the number of the query's tools, also if it is above k.
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


def graded_ndcg(
    hits: NDArray[np.int64], grades: Sequence[Mapping[int, int]], k: int
) -> Values:
    """nDCG@k with the grade of a tool as its gain, as trec_eval and ir_measures compute it from qrels.

    `hits` [n, depth] are indices of tools, padded with -1. `grades` has, for each query, the grades
    of the tools that fit; other tools have none. Where all grades are equal, it equals `ndcg`. The
    ideal ranking has the highest grades first (Järvelin and Kekäläinen 2002).
    """
    discounts = 1 / np.log2(np.arange(k) + 2)
    values = np.zeros(len(hits))
    for row, (ranked, of) in enumerate(zip(hits[:, :k].tolist(), grades, strict=True)):
        gains = [of.get(tool, 0) for tool in ranked]
        ideal = sorted(of.values(), reverse=True)[:k]
        best = ideal @ discounts[: len(ideal)]
        values[row] = gains @ discounts[: len(gains)] / best
    return values


def mrr(found: Found) -> Values:
    """Reciprocal rank of the first relevant hit over all searched ranks; 0 without one."""
    first = found.argmax(axis=1) if found.shape[1] else np.zeros(len(found), np.int64)
    return np.where(found.any(axis=1), 1 / (first + 1), 0.0)


def comp(found: Found, n_gold: NDArray[np.int64], k: int) -> Values:
    """COMP@k: 1 if all of a query's tools are among the top k hits, else 0.

    COLT, arXiv 2405.16089, section 4.1.2.
    """
    return np.asarray(found[:, :k].sum(axis=1) == n_gold, dtype=np.float64)


def recall_or_twin(
    hits: NDArray[np.int64],
    gold: NDArray[np.int64],
    first_twins: NDArray[np.int64],
    k: int,
) -> Values:
    """Recall@k where a tool counts as retrieved if it or a twin of it is among the top k hits.

    The denominator is that of `recall`. Each tool counts by itself, so one hit is enough for several
    twins. `hits` [n, depth] and `gold` [n, most] are positions of tools, padded with -1;
    `first_twins` [n_tools] is that of `find_first_twins`. A position past its end is an unknown
    name, without twins. Without twins it equals `recall`.
    """
    lost = np.arange(len(first_twins), gold.max(initial=-1) + 1)
    first = np.concatenate([first_twins, lost])
    found = first[hits[:, :k]]
    found[hits[:, :k] < 0] = -1
    needed = first[gold]
    near = (needed[:, :, None] == found[:, None, :]).any(axis=2) & (gold >= 0)
    return np.asarray(near.sum(axis=1) / (gold >= 0).sum(axis=1), dtype=np.float64)


_Z95 = 1.959963984540054


def wilson_interval(count: float, n: int) -> tuple[float, float]:
    """Compute the 95 % Wilson score interval of the share of `count` among `n` >= 1.

    E. B. Wilson, "Probable inference, the law of succession, and statistical inference",
    JASA 22 (1927).
    """
    share, z2 = count / n, _Z95**2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z95 / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


@dataclass(frozen=True)
class Share:
    """A share of n cases with its 95 % Wilson interval; all three are None without cases."""

    count: int
    n: int
    share: float | None = None
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        if self.share is None or self.low is None or self.high is None:
            return "none"
        return (
            f"{100 * self.share:.1f} % ({100 * self.low:.1f} to {100 * self.high:.1f})"
        )


def measure_share(count: int, n: int) -> Share:
    """Make a share with its interval."""
    return (
        Share(count, n, count / n, *wilson_interval(count, n)) if n else Share(count, n)
    )
