"""Tool2Vec: a tool is the mean of the queries that use it (arXiv 2409.02141, section 4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from toolbank.bank import Bank
from toolbank.encoders.sentence import load_encoder
from toolbank.retrievers.config import Tool2VecConfig
from toolbank.retrievers.protocol import ALONE, FitContext, Hits
from toolbank.retrievers.ranking import search_vectors
from toolbank.retrievers.store import (
    VECTORS,
    demand,
    load_arrays,
    load_head,
    save_arrays,
    save_head,
)
from toolbank.retrievers.text import title_and_summary
from toolbank.retrievers.usage import train_usage

_PSEUDO_TEXTS = 20


class Tool2VecRetriever:
    """Cosine between a request and the mean of the train queries that use a tool.

    The paper's mean is drawn toward the description: v_t = normalised (sum of E(q) over the
    queries of t + w E(description)). So a tool that no query uses is its description, and one
    with few queries stays near it. With `centre`, what all queries have in common, and apart
    from it what all descriptions have in common, is taken out of every vector first: it says
    nothing about the tool, and without it no tool is near to every request.

    `vectors` [n_tools, d] are the tools' unit vectors; `common` [d] is what is taken out of a
    request.
    """

    def __init__(self, config: Tool2VecConfig) -> None:
        self.name: str = config.label
        self.config = config
        self.tools: tuple[str, ...] = ()
        self.vectors: NDArray[np.float32] = np.zeros((0, 0), np.float32)
        self.common: NDArray[np.float32] = np.zeros(0, np.float32)

    def fit(self, bank: Bank, context: FitContext = ALONE) -> None:  # noqa: ARG002
        """Average the train queries of every tool and its description."""
        encoder = load_encoder(self.config.encoder)
        usage = train_usage(bank)
        queries = encoder.encode_queries(usage.queries)
        descriptions = encoder.encode_documents(
            [title_and_summary(t) for t in bank.tools]
        )
        self.tools = tuple(tool.name for tool in bank.tools)
        self.common = np.zeros(encoder.dimension, np.float32)
        if self.config.centre:
            self.common = common_part(queries)
            queries = take_out(self.common, queries)
            descriptions = take_out(common_part(descriptions), descriptions)
        self.vectors = tool_vectors(
            usage.weights[:, None] * queries,
            descriptions,
            usage.tools,
            self.config.description_weight,
        )

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Indices and cosines of the best min(k, n_tools) tools: two arrays [n_queries, k]."""
        return search_vectors(self.embed(queries), self.vectors, k)

    def embed(self, queries: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors [n, d] of requests, in the space of `vectors`."""
        encoder = load_encoder(self.config.encoder)
        return take_out(self.common, encoder.encode_queries(queries))

    def save(self, folder: Path) -> None:
        """Write all that `load` needs; the encoder is named, not copied."""
        save_head(folder, self.config, self.tools)
        save_arrays(folder, {"tools": self.vectors, "common": self.common})

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote; no bank needed.

        Raises:
            InputError: a file is missing, damaged, or another method's.
        """
        config, tools = load_head(folder, Tool2VecConfig)
        retriever = cls(config)
        retriever.tools = tools
        arrays = load_arrays(folder, {"tools": (len(tools), None), "common": (None,)})
        demand(
            arrays["tools"].shape[1:] == arrays["common"].shape,
            folder / VECTORS,
            "tools and common differ in length",
        )
        retriever.vectors = arrays["tools"].astype(np.float32, copy=False)
        retriever.common = arrays["common"].astype(np.float32, copy=False)
        return retriever


def common_part(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The mean [d] of unit vectors [n, d], drawn toward zero where n is small.

    As if 20 vectors more had lain at zero, so that a handful of queries is not taken for all.
    """
    total = vectors.sum(axis=0, dtype=np.float64)
    return np.asarray(total / (len(vectors) + _PSEUDO_TEXTS), dtype=np.float32)


def take_out(
    common: NDArray[np.float32], vectors: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Unit vectors [n, d] less `common` [d], of unit length again."""
    rest = vectors - common
    lengths = np.linalg.norm(rest, axis=1, keepdims=True)
    return np.asarray(rest / np.maximum(lengths, 1e-9), dtype=np.float32)


def tool_vectors(
    queries: NDArray[np.floating],
    descriptions: NDArray[np.float32],
    uses: NDArray[np.int64],
    description_weight: float,
) -> NDArray[np.float32]:
    """Unit vectors [n_tools, d] of tools from vectors of queries and of descriptions.

    `uses` [n_queries, most] are the indices of each query's tools, padded with -1. A tool
    that no query uses, or whose sum vanishes, is its description.
    """
    query_of, place = np.nonzero(uses >= 0)
    sums = description_weight * descriptions.astype(np.float64)
    np.add.at(sums, uses[query_of, place], queries[query_of].astype(np.float64))
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    used = lengths > 1e-9
    vectors = np.where(used, sums / np.where(used, lengths, 1.0), descriptions)
    return vectors.astype(np.float32)
