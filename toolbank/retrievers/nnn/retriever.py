"""NNN: explain a request's vector as a sum of few tools' vectors (arXiv 2606.17910)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.records import Tool
from toolbank.ranking.topk import Hits, blocks, cosine_scores, join, top_k
from toolbank.retrievers import load_retriever
from toolbank.retrievers.calibration import unused_without
from toolbank.retrievers.crossfit import cross_fit
from toolbank.retrievers.nnn.config import NnnConfig
from toolbank.retrievers.nnn.elastic_net import solve
from toolbank.retrievers.nnn.unused import keep_ranks
from toolbank.retrievers.protocol import ALONE, DenseRetriever, FitContext, Retriever
from toolbank.retrievers.store import (
    demand,
    load_arrays,
    load_head,
    save_arrays,
    save_head,
)
from toolbank.retrievers.usage import find_usage, train_usage
from toolbank.retrievers.validation import (
    RECALL_AT,
    mean_recall,
    validation_queries,
)
from toolbank.system.errors import InputError

_FIRST = "first"
_LEAST_WEIGHT = 1e-6
# Tried where they are not set; the first without validation queries.
_L1 = (0.3, 0.05, 0.1, 0.2, 0.4)
_L2 = (3.0, 0.1, 0.3, 1.0, 10.0)


class NnnRetriever:
    """Non-negative elastic net over the best candidates of a dense first stage.

    A tool near to the request is passed over where another explains the same part of it, and
    one that explains what is left is found: a request for several tools lies between them.

    A tool of weight w > 0 has the score 1 + w. All others follow, by the first stage's cosine.

    A tool that no train query uses explains nothing: its vector is of its description, to which
    a request is never as near as to other requests. Where the first stage tells such tools
    apart (`unused`), they keep the ranks that its own search gives them, at scores between
    those of their neighbours (see `keep_ranks`), and the others share the ranks that are left.

    `l1` and `l2` are the strengths: as configured, or else those of some with the best Recall@5
    on the bank's validation queries.
    """

    def __init__(self, config: NnnConfig) -> None:
        self.name: str = config.label
        self.config = config
        self.tools: tuple[str, ...] = ()
        self.l1, self.l2 = next(self._strengths())
        self._first: DenseRetriever | None = None

    @property
    def built_on(self) -> Mapping[str, Retriever]:
        """Its first stage, by its label."""
        return {self.config.first_stage: self._dense}

    def fit(self, bank: Bank, context: FitContext = ALONE) -> None:
        """Take the first stage, and choose the strengths that are not set.

        Raises:
            InputError: the first stage has no vectors of tools.
        """
        self._take(context.fitted[self.config.first_stage])
        choices = list(self._strengths())
        queries = validation_queries(bank)
        if len(choices) == 1 or not queries:
            return
        wanted = find_usage(bank, queries)
        embedded, first = self._ask_first(wanted.queries, RECALL_AT)

        def try_out(strengths: tuple[float, float]) -> float:
            self.l1, self.l2 = strengths
            return mean_recall(self._find(embedded, first, RECALL_AT), wanted)

        self.l1, self.l2 = max(choices, key=try_out)

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Indices and scores of the best min(k, n_tools) tools: two arrays [n_queries, k]."""
        return self._find(*self._ask_first(queries, k), k)

    def search_train(self, bank: Bank, k: int, context: FitContext = ALONE) -> Hits:
        """Hits for every train query, its own tools' vectors made without it.

        Over a trained first stage, whose encoder has seen the query, they are of others that
        have not.
        """
        if self._dense.config.trainings:
            return cross_fit(
                self.config, bank, k, replace(context, fitted=self.built_on)
            )
        uses = train_usage(bank).tools
        own = _Own(uses, self._dense.own_vectors(bank))
        embedded = self._dense.embed_train(bank)
        counts = np.bincount(uses[uses >= 0], minlength=len(self.tools))
        if self._dense.unused is None or counts.min(initial=2) > 1:
            return self._explain(embedded, k, own)
        first = self._dense.search_train(bank, k, context)
        return self._mix(first, unused_without(uses, len(self.tools)), embedded, own)

    def add_tools(self, tools: Sequence[Tool]) -> None:
        """Add tools to the first stage, by their descriptions.

        Raises:
            InputError: one of them is there already.
        """
        self._dense.add_tools(tools)
        self.tools = self._dense.tools

    def save(self, folder: Path) -> None:
        """Write all that `load` needs; the first stage into a folder of its own."""
        save_head(folder, self.config, self.tools)
        save_arrays(folder, {"strengths": np.array([self.l1, self.l2])})
        self._dense.save(folder / _FIRST)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote; no bank needed.

        Raises:
            InputError: a file is missing, damaged, or another method's.
        """
        config, tools = load_head(folder, NnnConfig)
        retriever = cls(config)
        retriever.l1, retriever.l2 = load_arrays(folder, {"strengths": (2,)})[
            "strengths"
        ].tolist()
        retriever._take(load_retriever(folder / _FIRST))
        demand(tools == retriever.tools, folder / _FIRST, "not of the tools here")
        return retriever

    @property
    def _dense(self) -> DenseRetriever:
        if self._first is None:
            raise InputError(f"{self.name}: not fitted yet. First: toolbank train RUN.")
        return self._first

    def _take(self, first: Retriever) -> None:
        if not isinstance(first, DenseRetriever):
            raise InputError(
                f"retrievers: {self.name} needs a dense first_stage, and "
                f"{self.config.first_stage} has no vectors of tools. Name one of type "
                "tool2vec or descriptions."
            )
        self._first = first
        self.tools = first.tools

    def _strengths(self) -> Iterator[tuple[float, float]]:
        l1, l2 = self.config.l1, self.config.l2
        return product(_L1 if l1 is None else (l1,), _L2 if l2 is None else (l2,))

    def _ask_first(
        self, queries: Sequence[str], k: int
    ) -> tuple[NDArray[np.float32], Hits | None]:
        """Requests as unit vectors [n, d], and the first stage's hits if tools are unused."""
        embedded, unused = self._dense.embed(queries), self._dense.unused
        if unused is None or not unused.any():
            return embedded, None
        return embedded, self._dense.search(queries, k)

    def _find(self, embedded: NDArray[np.float32], first: Hits | None, k: int) -> Hits:
        unused = self._dense.unused
        if first is None or unused is None:
            return self._explain(embedded, k)
        return self._mix(
            first,
            lambda rows: np.broadcast_to(unused, (len(embedded[rows]), len(unused))),
            embedded,
        )

    def _explain(
        self, embedded: NDArray[np.float32], k: int, own: _Own | None = None
    ) -> Hits:
        """Hits [n, k] of requests given as unit vectors [n, d]."""
        parts = [
            top_k(self._score(embedded[block], own and own.of(block), None), k)
            for block in self._blocks(embedded)
        ]
        return join(parts, min(k, len(self.tools)))

    def _mix(
        self,
        first: Hits,
        find_unused: Callable[[slice], NDArray[np.bool_]],
        embedded: NDArray[np.float32],
        own: _Own | None = None,
    ) -> Hits:
        """As `_explain`, but that unused tools have their ranks in the first stage's hits."""
        k, parts = first[0].shape[1], []
        for block in self._blocks(embedded):
            unused = find_unused(block)
            scores = self._score(embedded[block], own and own.of(block), unused)
            hits = first[0][block], first[1][block]
            kept = np.take_along_axis(unused, hits[0], axis=1)
            parts.append(keep_ranks(hits, kept, top_k(scores, k)))
        return join(parts, k)

    def _blocks(self, embedded: NDArray[np.float32]) -> list[slice]:
        most = min(self.config.candidates, len(self.tools))
        a_query = len(self.tools) + most * (most + embedded.shape[1])
        return blocks(len(embedded), a_query)

    def _score(
        self,
        embedded: NDArray[np.float32],
        own: _Own | None,
        unused: NDArray[np.bool_] | None,
    ) -> NDArray[np.float32]:
        """Scores [n, n_tools] of requests given as unit vectors [n, d]; -inf of unused tools."""
        scores = cosine_scores(embedded, self._dense.vectors)
        if own:
            own.put_cosines(scores, embedded)
        if unused is not None:
            scores[unused] = -np.inf
        candidates, cosines = top_k(scores, self.config.candidates)
        vectors = self._dense.vectors[candidates]
        if own:
            own.put_vectors(vectors, candidates)
        # Of fewer used tools than candidates; a vector of zeros explains nothing.
        left_out = np.isinf(cosines)
        vectors[left_out] = 0
        target = np.where(left_out, np.float32(0), cosines)
        gram = (vectors @ vectors.transpose(0, 2, 1)).astype(np.float64)
        weights = solve(gram, target.astype(np.float64), self.l1, self.l2)
        joined = np.where(weights > _LEAST_WEIGHT, 1 + weights, cosines)
        np.put_along_axis(scores, candidates, joined.astype(np.float32), axis=1)
        return scores


@dataclass(frozen=True)
class _Own:
    """Indices of train queries' own tools [n, most], padded with -1, and vectors [n, most, d]."""

    tools: NDArray[np.int64]
    vectors: NDArray[np.float32]

    def of(self, block: slice) -> _Own:
        """Those of some of the queries."""
        return _Own(self.tools[block], self.vectors[block])

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
