"""Nearest neighbours: the tools of the train queries that are most like the request."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from toolbank.bank import Bank, Tool
from toolbank.retrievers.config import NearestConfig
from toolbank.retrievers.growth import join_names
from toolbank.retrievers.likeness import Likeness, create_likeness, load_likeness
from toolbank.retrievers.protocol import ALONE, FitContext, Hits
from toolbank.retrievers.ranking import blocks, join, top_k
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
    decides. Tools without a vote follow, by that similarity alone.
    """

    def __init__(self, config: NearestConfig) -> None:
        self.name: str = config.label
        self.config = config
        self.tools: tuple[str, ...] = ()
        self._likeness: Likeness = create_likeness(config)
        self._uses: NDArray[np.int64] = np.zeros((0, 0), np.int64)

    def fit(self, bank: Bank, context: FitContext = ALONE) -> None:  # noqa: ARG002
        """Keep the train queries and the tools' texts, embedded or indexed."""
        usage = train_usage(bank)
        self.tools = tuple(tool.name for tool in bank.tools)
        self._likeness = create_likeness(self.config)
        self._likeness.add_queries(usage.queries)
        self._likeness.add_tools(bank.tools)
        self._uses = usage.tools

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Indices and scores of the best min(k, n_tools) tools: two arrays [n_queries, k]."""
        return self._search(queries, k, leave_out=False)

    def search_train(self, bank: Bank, k: int, context: FitContext = ALONE) -> Hits:  # noqa: ARG002
        """Hits for every train query, which is never its own neighbour.

        Another query with the same words stays one: it would be there without this one, too.
        By BM25, how rare a word is counts over all train queries, this one among them.
        """
        return self._search(train_usage(bank).queries, k, leave_out=True)

    def add_tools(self, tools: Sequence[Tool]) -> None:
        """Make tools found by their texts, behind those that have votes.

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
        save_arrays(folder, {**arrays, "uses": self._uses})

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote; no bank needed.

        Raises:
            InputError: a file is missing, damaged, or another method's.
        """
        config, tools = load_head(folder, NearestConfig)
        retriever = cls(config)
        retriever.tools = tools
        uses = load_arrays(folder, {"uses": (None, None)})["uses"]
        demand(
            within(uses, -1, len(tools)),
            folder / VECTORS,
            "uses of tools that are not in tools.json",
        )
        retriever._uses = uses.astype(np.int64, copy=False)
        retriever._likeness = load_likeness(config, folder, len(uses), len(tools))
        return retriever

    def _search(self, queries: Sequence[str], k: int, leave_out: bool) -> Hits:
        widest = max(len(self.tools), len(self._uses))
        parts = []
        for block in blocks(len(queries), widest):
            to_queries, to_tools = self._likeness.compare(queries[block])
            if leave_out:
                rows = np.arange(len(to_queries))
                to_queries[rows, block.start + rows] = -np.inf
            parts.append(top_k(self._score(to_queries, to_tools), k))
        return join(parts, min(k, len(self.tools)))

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
