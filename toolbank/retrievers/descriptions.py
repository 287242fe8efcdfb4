"""Embedded descriptions, and no use of queries: the floor under every trained retriever."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from toolbank.bank import Bank, Tool
from toolbank.encoders.sentence import load_encoder
from toolbank.retrievers.config import DescriptionsConfig
from toolbank.retrievers.growth import join_names
from toolbank.retrievers.protocol import ALONE, FitContext, Hits
from toolbank.retrievers.ranking import search_vectors
from toolbank.retrievers.store import (
    demand_width,
    load_arrays,
    load_head,
    save_arrays,
    save_head,
)
from toolbank.retrievers.text import title_and_summary
from toolbank.retrievers.usage import train_usage


class DescriptionsRetriever:
    """Cosine between a request and each tool's name and summary.

    `vectors` [n_tools, d] are the tools' unit vectors.
    """

    def __init__(self, config: DescriptionsConfig) -> None:
        self.name: str = config.label
        self.config = config
        self.tools: tuple[str, ...] = ()
        self.vectors: NDArray[np.float32] = np.zeros((0, 0), np.float32)

    def fit(self, bank: Bank, context: FitContext = ALONE) -> None:  # noqa: ARG002
        """Embed the tools' names and summaries; queries are not used."""
        self.tools = tuple(tool.name for tool in bank.tools)
        self.vectors = self._describe(bank.tools)

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Indices and cosines of the best min(k, n_tools) tools: two arrays [n_queries, k]."""
        return search_vectors(self.embed(queries), self.vectors, k)

    def search_train(self, bank: Bank, k: int, context: FitContext = ALONE) -> Hits:  # noqa: ARG002
        """Hits for every train query; it has seen none, since no query is used."""
        return search_vectors(self.embed_train(bank), self.vectors, k)

    def add_tools(self, tools: Sequence[Tool]) -> None:
        """Make tools found that were not there in the fit.

        Raises:
            InputError: one of them is there already.
        """
        names = join_names(self.tools, tools)
        self.vectors = np.concatenate([self.vectors, self.embed_tools(tools)])
        self.tools = names

    def embed(self, queries: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors [n, d] of requests, in the space of `vectors`.

        Raises:
            InputError: the encoder gives vectors of another length than those saved.
        """
        encoder = load_encoder(self.config.encoder)
        demand_width(encoder.dimension, self.vectors, self.config.encoder.model)
        return encoder.encode_queries(queries)

    def embed_train(self, bank: Bank) -> NDArray[np.float32]:
        """Unit vectors [n_train, d] of the bank's train queries, in the space of `vectors`."""
        return self.embed([query.query for query in bank.split("train")])

    def own_vectors(self, bank: Bank) -> NDArray[np.float32]:
        """Vectors [n_train, most, d] of each train query's own tools; zeros where padded.

        They are `vectors`: no query is in them.
        """
        uses = train_usage(bank).tools
        return np.where(uses[:, :, None] >= 0, self.vectors[uses], np.float32(0))

    def embed_tools(self, tools: Sequence[Tool]) -> NDArray[np.float32]:
        """Unit vectors [n, d] of tools by their descriptions.

        Raises:
            InputError: the encoder gives vectors of another length than those saved.
        """
        vectors = self._describe(tools)
        demand_width(vectors.shape[1], self.vectors, self.config.encoder.model)
        return vectors

    def save(self, folder: Path) -> None:
        """Write all that `load` needs; the encoder is named, not copied."""
        save_head(folder, self.config, self.tools)
        save_arrays(folder, {"tools": self.vectors})

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote; no bank needed.

        Raises:
            InputError: a file is missing, damaged, or another method's.
        """
        config, tools = load_head(folder, DescriptionsConfig)
        retriever = cls(config)
        retriever.tools = tools
        arrays = load_arrays(folder, {"tools": (len(tools), None)})
        retriever.vectors = arrays["tools"].astype(np.float32, copy=False)
        return retriever

    def _describe(self, tools: Sequence[Tool]) -> NDArray[np.float32]:
        encoder = load_encoder(self.config.encoder)
        return encoder.encode_documents([title_and_summary(tool) for tool in tools])
