"""Embedded descriptions, and no use of queries: the floor under every trained retriever."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from toolbank.bank import Bank
from toolbank.encoders.sentence import load_encoder
from toolbank.retrievers.config import DescriptionsConfig
from toolbank.retrievers.protocol import ALONE, FitContext, Hits
from toolbank.retrievers.ranking import search_vectors
from toolbank.retrievers.store import load_arrays, load_head, save_arrays, save_head
from toolbank.retrievers.text import title_and_summary


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
        encoder = load_encoder(self.config.encoder)
        self.tools = tuple(tool.name for tool in bank.tools)
        self.vectors = encoder.encode_documents(
            [title_and_summary(t) for t in bank.tools]
        )

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Indices and cosines of the best min(k, n_tools) tools: two arrays [n_queries, k]."""
        return search_vectors(self.embed(queries), self.vectors, k)

    def embed(self, queries: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors [n, d] of requests, in the space of `vectors`."""
        encoder = load_encoder(self.config.encoder)
        return encoder.encode_queries(queries)

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
