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
from toolbank.retrievers.protocol import Hits
from toolbank.retrievers.ranking import search_vectors
from toolbank.retrievers.store import load_arrays, load_head, save_arrays, save_head
from toolbank.retrievers.text import title_and_summary
from toolbank.retrievers.usage import train_usage


class Tool2VecRetriever:
    """Cosine between a request and the mean of the train queries that use a tool.

    The paper's mean is drawn toward the description: v_t = normalised (sum of E(q) over the
    queries of t + w E(description)). So a tool that no query uses is its description, and one
    with few queries stays near it. `vectors` [n_tools, d] are these unit vectors.
    """

    def __init__(self, config: Tool2VecConfig) -> None:
        self.name: str = config.type
        self.config = config
        self.tools: tuple[str, ...] = ()
        self.vectors: NDArray[np.float32] = np.zeros((0, 0), np.float32)

    def fit(self, bank: Bank) -> None:
        """Average the train queries of every tool and its description."""
        encoder = load_encoder(self.config.encoder)
        usage = train_usage(bank)
        self.tools = tuple(tool.name for tool in bank.tools)
        self.vectors = tool_vectors(
            encoder.encode_queries(usage.queries),
            encoder.encode_documents([title_and_summary(t) for t in bank.tools]),
            usage.tools,
            self.config.description_weight,
        )

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Indices and cosines of the best min(k, n_tools) tools: two arrays [n_queries, k]."""
        encoded = load_encoder(self.config.encoder).encode_queries(queries)
        return search_vectors(encoded, self.vectors, k)

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
        config, tools = load_head(folder, Tool2VecConfig)
        retriever = cls(config)
        retriever.tools = tools
        arrays = load_arrays(folder, {"tools": (len(tools), None)})
        retriever.vectors = arrays["tools"].astype(np.float32, copy=False)
        return retriever


def tool_vectors(
    queries: NDArray[np.float32],
    descriptions: NDArray[np.float32],
    uses: NDArray[np.int64],
    description_weight: float,
) -> NDArray[np.float32]:
    """Unit vectors [n_tools, d] of tools from unit vectors of queries and descriptions.

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
