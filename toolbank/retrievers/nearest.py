"""Nearest neighbours: the tools of the train queries that are most like the request."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from toolbank.bank import Bank
from toolbank.encoders.sentence import load_encoder
from toolbank.retrievers.config import NearestConfig
from toolbank.retrievers.protocol import ALONE, FitContext, Hits
from toolbank.retrievers.ranking import blocks, cosine_scores, join, top_k
from toolbank.retrievers.store import (
    VECTORS,
    demand,
    load_arrays,
    load_head,
    save_arrays,
    save_head,
    within,
)
from toolbank.retrievers.text import title_and_summary
from toolbank.retrievers.usage import train_usage

_TIE = 0.01


class NearestRetriever:
    """Votes of the most similar train queries, each weighted by its cosine.

    A tool's score is its share of the votes; among tools with nearly equal shares the cosine
    with the description decides. Tools without a vote follow, by that cosine alone.
    """

    def __init__(self, config: NearestConfig) -> None:
        self.name: str = config.label
        self.config = config
        self.tools: tuple[str, ...] = ()
        self._descriptions: NDArray[np.float32] = np.zeros((0, 0), np.float32)
        self._queries: NDArray[np.float32] = np.zeros((0, 0), np.float32)
        self._uses: NDArray[np.int64] = np.zeros((0, 0), np.int64)

    def fit(self, bank: Bank, context: FitContext = ALONE) -> None:  # noqa: ARG002
        """Embed the train queries and the descriptions."""
        encoder = load_encoder(self.config.encoder)
        usage = train_usage(bank)
        self.tools = tuple(tool.name for tool in bank.tools)
        self._descriptions = encoder.encode_documents(
            [title_and_summary(t) for t in bank.tools]
        )
        self._queries = encoder.encode_queries(usage.queries)
        self._uses = usage.tools

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Indices and scores of the best min(k, n_tools) tools: two arrays [n_queries, k]."""
        encoded = load_encoder(self.config.encoder).encode_queries(queries)
        widest = max(len(self.tools), len(self._queries))
        parts = [
            top_k(self._score(encoded[block]), k)
            for block in blocks(len(encoded), widest)
        ]
        return join(parts, min(k, len(self.tools)))

    def save(self, folder: Path) -> None:
        """Write all that `load` needs; the encoder is named, not copied."""
        save_head(folder, self.config, self.tools)
        save_arrays(
            folder,
            {
                "descriptions": self._descriptions,
                "queries": self._queries,
                "uses": self._uses,
            },
        )

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote; no bank needed.

        Raises:
            InputError: a file is missing, damaged, or another method's.
        """
        config, tools = load_head(folder, NearestConfig)
        retriever = cls(config)
        retriever.tools = tools
        shapes = {
            "descriptions": (len(tools), None),
            "queries": (None, None),
            "uses": (None, None),
        }
        arrays = load_arrays(folder, shapes)
        uses, queries, descriptions = (
            arrays[name] for name in ("uses", "queries", "descriptions")
        )
        path = folder / VECTORS
        demand(len(uses) == len(queries), path, "uses and queries differ in number")
        demand(
            within(uses, -1, len(tools)),
            path,
            "uses of tools that are not in tools.json",
        )
        demand(
            queries.shape[1] == descriptions.shape[1],
            path,
            "queries and descriptions differ in length",
        )
        retriever._descriptions = descriptions.astype(np.float32, copy=False)
        retriever._queries = queries.astype(np.float32, copy=False)
        retriever._uses = uses.astype(np.int64, copy=False)
        return retriever

    def _score(self, encoded: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scores [n, n_tools]: above 0 with a vote, at most 0 without."""
        cosines = cosine_scores(encoded, self._descriptions)
        votes = self._votes(encoded)
        return np.where(
            votes > 0, votes + _TIE * (1 + cosines) / 2, (cosines - 1) / 2
        ).astype(np.float32)

    def _votes(self, encoded: NDArray[np.float32]) -> NDArray[np.float32]:
        """Each tool's share [n, n_tools] of its request's votes."""
        n_tools = len(self.tools)
        # The last column takes the padding and is cut off.
        votes = np.zeros((len(encoded), n_tools + 1), np.float32)
        nearest, cosines = top_k(
            cosine_scores(encoded, self._queries), self.config.neighbours
        )
        weights = np.clip(cosines, 0, None)
        weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-9)
        voted = self._uses[nearest]
        rows = np.arange(len(encoded))[:, None, None]
        np.add.at(votes, (rows, voted), weights[:, :, None])
        return votes[:, :n_tools]
