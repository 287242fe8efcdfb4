"""NNN: explain a request's vector as a sum of few tools' vectors (arXiv 2606.17910)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.ranking import Hits, Ties, blocks, cosine_scores, join, top_k
from toolbank.retrievers.base import ALONE, FitContext
from toolbank.retrievers.relevance import (
    RECALL_AT,
    find_relevance,
    mean_recall,
    train_relevance,
    validation_queries,
)
from toolbank.retrievers.settings import NnnConfig
from toolbank.retrievers.stored import Arrays, floats
from toolbank.retrievers.two_stage import TwoStage
from toolbank.retrievers.unseen import keep_ranks, unseen_without

Floats = NDArray[np.float64]

_TOLERANCE = 1e-7
_MOST_ITERATIONS = 5_000


def solve(gram: Floats, target: Floats, l1: float, l2: float) -> Floats:
    """The weights w >= 0 that minimise ||q - D w||^2 / 2 + l1 sum(w) + l2 ||w||^2 / 2.

    Of each request, `gram` [n, m, m] is D'D of the vectors of its m candidates, and `target`
    [n, m] is D'q; gives w [n, m]. By FISTA (Beck and Teboulle 2009) that starts its momentum
    anew where the objective would rise (O'Donoghue and Candes 2015). A request is done when no
    weight would move by more than 1e-7 in a plain gradient step, scaled by the step's length: its
    distance from the Karush-Kuhn-Tucker conditions. It stops after 5,000 steps. The result of a
    request does not depend on the others.
    """
    weights = np.zeros_like(target)
    # Bounds the largest eigenvalue: the largest sum of a row's absolute values.
    curvature = np.abs(gram).sum(axis=2).max(axis=1, initial=0)[:, None] + l2
    curvature = np.maximum(curvature, np.finfo(np.float64).tiny)
    rows = np.arange(len(target))
    now, ahead, momentum = weights, weights, np.ones((len(target), 1))
    for _ in range(_MOST_ITERATIONS):
        if not len(rows):
            break
        gradient = (gram @ ahead[:, :, None])[:, :, 0] + l2 * ahead - target + l1
        after = np.maximum(ahead - gradient / curvature, 0)
        moved = after - ahead
        done = np.abs(moved * curvature).max(axis=1, initial=0) <= _TOLERANCE
        against = (moved * (after - now)).sum(axis=1, keepdims=True) < 0
        following = np.where(against, 1.0, (1 + np.sqrt(1 + 4 * momentum**2)) / 2)
        ahead = after + np.where(against, 0, (momentum - 1) / following) * (after - now)
        now, momentum = after, following
        if done.any():
            weights[rows[done]] = now[done]
            rows, gram, target, curvature, now, ahead, momentum = (
                array[~done]
                for array in (rows, gram, target, curvature, now, ahead, momentum)
            )
    weights[rows] = now
    return weights


_LEAST_WEIGHT = 1e-6
# Tried where they are not set; the first without validation queries.
_L1 = (0.3, 0.05, 0.1, 0.2, 0.4)
_L2 = (3.0, 0.1, 0.3, 1.0, 10.0)


class NnnRetriever(TwoStage):
    """Non-negative elastic net over the best candidates of a dense first stage.

    The vector of a request for several tools is between the tools' vectors. A near tool is skipped
    if another one explains the same part of the request.

    A tool of weight w > 0 has the score 1 + w. The others follow by the first stage's cosine.

    A tool that no train query uses has the vector of its description, which is always farther from
    a request than the mean of queries. If the first stage distinguishes such tools (`unseen`), they
    keep their ranks, with scores between their neighbours' (see `keep_ranks`), and the others share
    the remaining ranks.

    `l1` and `l2` are the configured strengths, or those with the best Recall@5 on the validation
    queries.
    """

    config: NnnConfig
    l1: float
    l2: float

    arrays: ClassVar[Arrays] = {
        "l1": floats(dtype=np.float64, low=0),
        "l2": floats(dtype=np.float64, low=0),
    }

    def fit(self, bank: Bank, context: FitContext = ALONE) -> None:
        """Take the first stage, and choose the strengths that are not set.

        Raises:
            InputError: the first stage has no vectors of tools.
        """
        self.take_stages(context.fitted)
        choices = list(self._strengths())
        self.l1, self.l2 = choices[0]
        queries = validation_queries(bank)
        if len(choices) == 1 or not queries:
            return
        wanted = find_relevance(bank, queries)
        ties = self.draw_ties(wanted.queries)
        embedded, first = self._ask_first(wanted.queries, RECALL_AT)

        def try_out(strengths: tuple[float, float]) -> float:
            self.l1, self.l2 = strengths
            return mean_recall(self._find(ties, embedded, first, RECALL_AT), wanted)

        self.l1, self.l2 = max(choices, key=try_out)

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Return indices and scores of the best min(k, n_tools) tools: two arrays [n_queries, k]."""
        return self._find(self.draw_ties(queries), *self._ask_first(queries, k), k)

    def search_train(self, bank: Bank, k: int, context: FitContext = ALONE) -> Hits:
        """Return hits for every train query; its own tools' vectors are made without it.

        If the first stage is trained, its encoder has seen the query, so it is cross-fitted.
        """
        if self.dense.config.trainings:
            return super().search_train(bank, k, context)
        relevance = train_relevance(bank)
        uses, ties = relevance.tools, self.draw_ties(relevance.queries)
        own = _OwnVectors(uses, self.dense.own_vectors(bank))
        embedded = self.dense.embed_train(bank)
        counts = np.bincount(uses[uses >= 0], minlength=len(self.tools))
        if self.dense.unseen is None or counts.min(initial=2) > 1:
            return self._find(ties, embedded, None, k, own=own)
        first = self.dense.search_train(bank, k, context)
        unseen = unseen_without(uses, len(self.tools))
        return self._find(ties, embedded, first, k, unseen, own)

    def _strengths(self) -> Iterator[tuple[float, float]]:
        l1, l2 = self.config.l1, self.config.l2
        return product(_L1 if l1 is None else (l1,), _L2 if l2 is None else (l2,))

    def _ask_first(
        self, queries: Sequence[str], k: int
    ) -> tuple[NDArray[np.float32], Hits | None]:
        """Unit vectors [n, d] of requests, and the first stage's hits if tools are unseen."""
        embedded, unseen = self.dense.embed(queries), self.dense.unseen
        if unseen is None or not unseen.any():
            return embedded, None
        return embedded, self.dense.search(queries, k)

    def _find(
        self,
        ties: Ties,
        embedded: NDArray[np.float32],
        first: Hits | None,
        k: int,
        find_unseen: Callable[[slice], NDArray[np.bool_]] | None = None,
        own: _OwnVectors | None = None,
    ) -> Hits:
        """Hits [n, k] of requests, given as unit vectors [n, d].

        With `first`, hits of the first stage, unseen tools keep their ranks among these.
        `find_unseen` marks the unseen tools of some requests, if not all requests have the same.
        """
        unseen, shape = self.dense.unseen, (len(embedded), len(self.tools))
        every = np.broadcast_to(False if unseen is None else unseen, shape)
        parts = []
        for block in blocks(len(embedded), self._width(embedded)):
            marked = find_unseen(block) if find_unseen else every[block]
            lots, vectors = ties.of(block), own and own.of(block)
            hits = top_k(self._score(embedded[block], lots, vectors, marked), k, lots)
            if first is not None:
                ranked = first[0][block], first[1][block]
                kept = np.take_along_axis(marked, ranked[0], axis=1)
                hits = keep_ranks(ranked, kept, hits)
            parts.append(hits)
        return join(parts, min(k, len(self.tools)))

    def _width(self, embedded: NDArray[np.float32]) -> int:
        """Count the numbers in memory per request."""
        most = min(self.config.candidates, len(self.tools))
        width: int = len(self.tools) + most * (most + embedded.shape[1])
        return width

    def _score(
        self,
        embedded: NDArray[np.float32],
        ties: Ties,
        own: _OwnVectors | None,
        unseen: NDArray[np.bool_],
    ) -> NDArray[np.float32]:
        """Scores [n, n_tools] of requests given as unit vectors [n, d]; -inf of unseen tools."""
        scores = cosine_scores(embedded, self.dense.vectors)
        if own:
            own.put_cosines(scores, embedded)
        scores[unseen] = -np.inf
        candidates, cosines = top_k(scores, self.config.candidates, ties)
        vectors = self.dense.vectors[candidates]
        if own:
            own.put_vectors(vectors, candidates)
        # There may be fewer used tools than candidates; a vector of zeros explains nothing.
        missing = np.isinf(cosines)
        vectors[missing] = 0
        target = np.where(missing, np.float32(0), cosines)
        gram = (vectors @ vectors.transpose(0, 2, 1)).astype(np.float64)
        weights = solve(gram, target.astype(np.float64), self.l1, self.l2)
        joined = np.where(weights > _LEAST_WEIGHT, 1 + weights, cosines)
        np.put_along_axis(scores, candidates, joined.astype(np.float32), axis=1)
        return scores


@dataclass(frozen=True)
class _OwnVectors:
    """Indices of train queries' own tools [n, most], padded with -1, and vectors [n, most, d]."""

    tools: NDArray[np.int64]
    vectors: NDArray[np.float32]

    def of(self, block: slice) -> _OwnVectors:
        """Those of some of the queries."""
        return _OwnVectors(self.tools[block], self.vectors[block])

    def put_cosines(
        self, scores: NDArray[np.float32], embedded: NDArray[np.float32]
    ) -> None:
        """Set the cosines [n, n_tools] with own tools to those with these vectors."""
        row, place = np.nonzero(self.tools >= 0)
        cosines = (embedded[row] * self.vectors[row, place]).sum(axis=1)
        scores[row, self.tools[row, place]] = np.round(cosines, 6)

    def put_vectors(
        self, vectors: NDArray[np.float32], candidates: NDArray[np.int64]
    ) -> None:
        """Set the vectors [n, m, d] of those of the candidates [n, m] that are own tools."""
        for tools, own in zip(self.tools.T, self.vectors.swapaxes(0, 1), strict=True):
            row, place = np.nonzero(candidates == tools[:, None])
            vectors[row, place] = own[row]
