"""What of a search says whether anything fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.ranking import Hits
from toolbank.retrievers.base import Retriever
from toolbank.retrievers.dense import DenseRetriever

DEPTH = 10
_FIRST = 5


def list_stages(retriever: Retriever) -> Iterator[Retriever]:
    """A retriever and all that it is built on."""
    yield retriever
    for stage in retriever.built_on.values():
        yield from list_stages(stage)


def find_dense(retriever: Retriever) -> DenseRetriever | None:
    """The first among them that has vectors of requests; None if there is none."""
    return next(
        (one for one in list_stages(retriever) if isinstance(one, DenseRetriever)), None
    )


def read_signals(
    retriever: Retriever,
    queries: Sequence[str],
    hits: Hits,
    without: Sequence[NDArray[np.int64]] | None = None,
) -> NDArray[np.float64]:
    """Of each stage the best score, the mean of the first five, and how they fall [n, 3 s].

    Stages whose scores don't compare between requests are left out: what a fusion gives a tool
    hangs on what it found besides. `hits` are the retriever's own, at least ten deep where there
    are so many tools. `without` has tools a request that are left out, as if they were not in the
    catalogue.
    """
    most = max(map(len, without), default=0) if without is not None else 0
    found = []
    for stage in list_stages(retriever):
        if not stage.config.scores_compare:
            continue
        own = stage is retriever and hits[0].shape[1] >= min(
            DEPTH + most, len(retriever.tools)
        )
        stage_hits = hits if own else stage.search(queries, DEPTH + most)
        found.append(_describe(leave_out(stage_hits, without)[1]))
    return np.concatenate([np.zeros((len(queries), 0)), *found], axis=1)


def leave_out(hits: Hits, without: Sequence[NDArray[np.int64]] | None) -> Hits:
    """The hits [n, k] less some of each request, the others moved up, filled with -1 and -inf."""
    if without is None:
        return hits
    indices = np.full(hits[0].shape, -1, np.int64)
    scores = np.full(hits[1].shape, -np.inf, np.float32)
    for row, gone in enumerate(without):
        kept = ~np.isin(hits[0][row], gone)
        indices[row, : kept.sum()] = hits[0][row][kept]
        scores[row, : kept.sum()] = hits[1][row][kept]
    return indices, scores


def _describe(scores: NDArray[np.float32]) -> NDArray[np.float64]:
    n = len(scores)
    if not scores.shape[1]:
        return np.zeros((n, 3))
    real = np.isfinite(scores)
    lowest = np.where(real, scores, np.inf).min(axis=1, keepdims=True)
    filled = np.where(real, scores, np.where(np.isfinite(lowest), lowest, 0))
    first = filled[:, :DEPTH].astype(np.float64)
    best = first[:, 0]
    return np.stack([best, first[:, :_FIRST].mean(axis=1), best - first[:, -1]], axis=1)
