"""Probabilities from a retriever's scores: is a tool needed, and does any tool fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.ranking import Hits
from toolbank.retrievers.base import Retriever
from toolbank.retrievers.dense import DenseRetriever
from toolbank.retrievers.stored import Arrays, Stored, floats

DEPTH = 10
_FIRST = 5


def list_stages(retriever: Retriever) -> Iterator[Retriever]:
    """Yield a retriever and all retrievers that it builds on."""
    yield retriever
    for stage in retriever.built_on.values():
        yield from list_stages(stage)


def find_dense(retriever: Retriever) -> DenseRetriever | None:
    """Return the first stage that is dense; None if there is none."""
    return next(
        (one for one in list_stages(retriever) if isinstance(one, DenseRetriever)), None
    )


def read_signals(
    retriever: Retriever,
    queries: Sequence[str],
    hits: Hits,
    without: Sequence[NDArray[np.int64]] | None = None,
) -> NDArray[np.float64]:
    """Return each stage's best score, mean of the top 5, and fall over the top 10: [n, 3 s].

    Stages whose scores do not compare between requests are skipped: the score of a fusion depends
    on its other hits. `hits` are the retriever's own, at least `DEPTH` deep if there are so many
    tools. `without` holds the tools of each request that count as missing from the catalogue.
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
        found.append(_describe(remove_hits(stage_hits, without)[1]))
    return np.concatenate([np.zeros((len(queries), 0)), *found], axis=1)


def remove_hits(hits: Hits, without: Sequence[NDArray[np.int64]] | None) -> Hits:
    """Remove some hits [n, k] of each request; the others move up, -1 and -inf fill the row."""
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


class Calibration(Stored):
    """Probabilities that the hits of a retriever are needed, by two logistic regressions.

    After Platt (1999). The first regression estimates whether anything in the catalogue fits a
    request. Its inputs are `read_signals`, standardised by `centre` and `spread` [signals], and
    the request's vector along `direction` [d], which points from other domains to this one. Its
    coefficients are `fits` [signals + 2], the intercept last. The second, `needed` [4], estimates
    whether a hit is needed: from how far its score is below the best one, its rank, and the
    log-odds of the first. No slope of the second is negative, so hits keep their order. `scale` is
    the standard deviation of the best hit's score.

    An answer is marked as not fitting if no hit reaches `threshold`.
    """

    centre: NDArray[np.float64]
    spread: NDArray[np.float64]
    direction: NDArray[np.float64]
    fits: NDArray[np.float64]
    needed: NDArray[np.float64]
    scale: NDArray[np.float64]
    threshold: NDArray[np.float64]

    arrays: ClassVar[Arrays] = {
        "centre": floats("signals", dtype=np.float64),
        "spread": floats("signals", dtype=np.float64, low=1e-9),
        "direction": floats("width", dtype=np.float64),
        "fits": floats("coefficients", dtype=np.float64),
        "needed": floats(4, dtype=np.float64),
        "scale": floats(dtype=np.float64, low=1e-9),
        "threshold": floats(dtype=np.float64, low=0, high=1),
    }

    def chances(
        self,
        retriever: Retriever,
        queries: Sequence[str],
        hits: Hits,
        without: Sequence[NDArray[np.int64]] | None = None,
    ) -> NDArray[np.float64]:
        """Return probabilities [n, k] that hits are needed; 0 for padding.

        `hits` are the retriever's, at least `DEPTH` deep if there are so many tools, without the
        tools in `without`.
        """
        odds = self.request_odds(
            read_signals(retriever, queries, hits, without),
            embed_requests(retriever, queries),
        )
        features = describe_hits(hits, odds, float(self.scale))
        logits = features @ self.needed[:-1] + self.needed[-1]
        return np.where(hits[0] >= 0, _sigmoid(logits), 0.0)

    def best_chance(self, odds: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability that the best hit is needed, given the log-odds [n] of a fit."""
        return _sigmoid(self.needed[-2] * odds + self.needed[-1])

    def request_odds(
        self, signals: NDArray[np.float64], vectors: NDArray[np.float32]
    ) -> NDArray[np.float64]:
        """Return log-odds [n] that anything fits, from signals [n, s] and vectors [n, d]."""
        near = vectors @ self.direction
        columns = np.column_stack([(signals - self.centre) / self.spread, near])
        return np.asarray(columns @ self.fits[:-1] + self.fits[-1])


def embed_requests(retriever: Retriever, queries: Sequence[str]) -> NDArray[np.float32]:
    """Embed requests [n, d] by the first dense stage; d is 0 without one."""
    dense = find_dense(retriever)
    if dense is None:
        return np.zeros((len(queries), 0), np.float32)
    return dense.embed(queries)


def describe_hits(
    hits: Hits, odds: NDArray[np.float64], scale: float
) -> NDArray[np.float64]:
    """Return the features [n, k, 3] of a hit's probability: higher is more likely."""
    scores = np.where(np.isfinite(hits[1]), hits[1], 0).astype(np.float64)
    below = (scores - scores[:, :1]) / scale
    rank = np.broadcast_to(-np.log1p(np.arange(scores.shape[1])), scores.shape)
    fits = np.broadcast_to(odds[:, None], scores.shape)
    return np.stack([below, rank, fits], axis=-1)


def _sigmoid(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.exp(-np.logaddexp(0, -logits)))
