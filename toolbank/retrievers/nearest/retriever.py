"""Nearest neighbours: the tools of the train queries that are most like the request."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.records import Tool
from toolbank.ranking.topk import Hits, blocks, join, top_k
from toolbank.retrievers.calibration import (
    AS_IT_IS,
    bridge,
    fit_bridge,
    spread_rows,
    unused_without,
)
from toolbank.retrievers.growth import join_names
from toolbank.retrievers.likeness import Likeness, create_likeness, load_likeness
from toolbank.retrievers.nearest.config import NearestConfig
from toolbank.retrievers.protocol import ALONE, FitContext
from toolbank.retrievers.store import (
    VECTORS,
    demand,
    load_arrays,
    load_head,
    save_arrays,
    save_head,
    within,
)
from toolbank.retrievers.usage import train_usage

_TIE = 0.01


class NearestRetriever:
    """Votes of the most similar train queries, each weighted by its similarity.

    Similar is what has a high cosine or a high BM25, as `by` says. A tool's score is its share
    of the votes; among tools with nearly equal shares the similarity to the tool's own text
    decides. Tools without a vote follow, by that similarity alone; but those that no train
    query uses, and so can't have one, stand where their similarity says
    (`toolbank.retrievers.calibration`).
    """

    def __init__(self, config: NearestConfig) -> None:
        self.name: str = config.label
        self.config = config
        self.tools: tuple[str, ...] = ()
        self._likeness: Likeness = create_likeness(config)
        self._uses: NDArray[np.int64] = np.zeros((0, 0), np.int64)
        self._line = AS_IT_IS

    def fit(self, bank: Bank, context: FitContext = ALONE) -> None:  # noqa: ARG002
        """Keep the train queries and the tools' texts, embedded or indexed."""
        usage = train_usage(bank)
        self.tools = tuple(tool.name for tool in bank.tools)
        self._likeness = create_likeness(self.config)
        self._likeness.add_queries(usage.queries)
        self._likeness.add_tools(bank.tools)
        self._uses = usage.tools
        self._line = self._calibrate(usage.queries)

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Indices and scores of the best min(k, n_tools) tools: two arrays [n_queries, k]."""
        counts = np.bincount(self._uses[self._uses >= 0], minlength=len(self.tools))
        parts = []
        for block in self._blocks(len(queries)):
            to_queries, to_tools = self._likeness.compare(queries[block])
            scores = self._score(to_queries, to_tools)
            unused = (counts == 0)[None]
            parts.append(top_k(bridge(scores, to_tools, unused, self._line), k))
        return join(parts, min(k, len(self.tools)))

    def search_train(self, bank: Bank, k: int, context: FitContext = ALONE) -> Hits:  # noqa: ARG002
        """Hits for every train query, which is never its own neighbour.

        Another query with the same words stays one: it would be there without this one, too.
        By BM25, how rare a word is counts over all train queries, this one among them.
        """
        queries = train_usage(bank).queries
        left = unused_without(self._uses, len(self.tools))
        parts = []
        for block in self._blocks(len(queries)):
            rows = np.arange(len(queries))[block]
            scores, to_tools = self._score_without(queries, rows)
            parts.append(top_k(bridge(scores, to_tools, left(rows), self._line), k))
        return join(parts, min(k, len(self.tools)))

    def add_tools(self, tools: Sequence[Tool]) -> None:
        """Make tools found that were not there in the fit, by their texts.

        Raises:
            InputError: one of them is there already.
        """
        names = join_names(self.tools, tools)
        self._likeness.add_tools(tools)
        self.tools = names

    def save(self, folder: Path) -> None:
        """Write all that `load` needs; an encoder is named, not copied."""
        save_head(folder, self.config, self.tools)
        arrays = self._likeness.save(folder)
        save_arrays(folder, {**arrays, "uses": self._uses, "line": self._line})

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote; no bank needed.

        Raises:
            InputError: a file is missing, damaged, or another method's.
        """
        config, tools = load_head(folder, NearestConfig)
        retriever = cls(config)
        retriever.tools = tools
        arrays = load_arrays(folder, {"uses": (None, None), "line": (2,)})
        uses = arrays["uses"]
        demand(
            within(uses, -1, len(tools)),
            folder / VECTORS,
            "uses of tools that are not in tools.json",
        )
        retriever._line = arrays["line"].astype(np.float64, copy=False)
        retriever._uses = uses.astype(np.int64, copy=False)
        retriever._likeness = load_likeness(config, folder, len(uses), len(tools))
        return retriever

    def _blocks(self, n_queries: int) -> list[slice]:
        return blocks(n_queries, max(len(self.tools), len(self._uses)))

    def _calibrate(self, queries: Sequence[str]) -> NDArray[np.float64]:
        """What brings similarities to tools to the scale of the scores by votes."""
        rows = spread_rows(len(queries), max(len(queries), len(self.tools)))
        scores, to_tools = self._score_without(queries, rows)
        left = unused_without(self._uses, len(self.tools))
        return fit_bridge(scores, to_tools, self._uses[rows], left(rows))

    def _score_without(
        self, queries: Sequence[str], rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Scores [n, n_tools] of these train queries without their own votes; and to tools."""
        to_queries, to_tools = self._likeness.compare([queries[row] for row in rows])
        to_queries[np.arange(len(rows)), rows] = -np.inf
        return self._score(to_queries, to_tools), to_tools

    def _score(
        self, to_queries: NDArray[np.float32], to_tools: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Scores [n, n_tools]: above 0 with a vote, at most 0 without."""
        votes = self._votes(to_queries)
        return np.where(votes > 0, votes + _TIE * to_tools, to_tools - 1).astype(
            np.float32
        )

    def _votes(self, to_queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Each tool's share [n, n_tools] of its request's votes."""
        n_tools = len(self.tools)
        # The last column takes the padding and is cut off.
        votes = np.zeros((len(to_queries), n_tools + 1), np.float32)
        nearest, similarities = top_k(to_queries, self.config.neighbours)
        weights = np.clip(similarities, 0, None)
        weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-9)
        voted = self._uses[nearest]
        rows = np.arange(len(to_queries))[:, None, None]
        np.add.at(votes, (rows, voted), weights[:, :, None])
        return votes[:, :n_tools]
