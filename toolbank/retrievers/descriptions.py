"""Embedded descriptions: without training the baseline under every retriever that learns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.ranking import Hits, search_vectors
from toolbank.bank.records import Tool
from toolbank.retrievers.base import full_text, title_and_summary
from toolbank.retrievers.dense import DenseRetriever
from toolbank.retrievers.relevance import train_relevance
from toolbank.retrievers.settings import DescriptionsConfig

_TEXTS = {"summary": title_and_summary, "full": full_text}


class DescriptionsRetriever(DenseRetriever):
    """Cosine between a request and each tool's name and summary, or all of its description.

    With `training`, the encoder is fine-tuned on the train queries and their tools' texts: the
    dense retriever of ToolBench (arXiv 2307.16789, section 3.2).
    """

    config: DescriptionsConfig

    summary = (
        "A sentence encoder fine-tuned on requests and the descriptions of the tools that they "
        "use: cosine between a request and a tool's description."
    )

    def embed_bank(self, bank: Bank) -> None:
        """Embed the tools' texts; queries are not used."""
        self.vectors = self.encoder.encode_documents(self.read(bank.tools))

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Indices and cosines of the best min(k, n_tools) tools: two arrays [n_queries, k]."""
        vectors, ties = self.embed(queries), self.draw_ties(queries)
        if self.index is not None and self.index.reaches(k):
            return self.index.search(vectors, self.vectors, ties, k)
        return search_vectors(vectors, self.vectors, ties, k)

    def search_held_out(self, bank: Bank, k: int) -> Hits:
        """Hits for every train query, of which none was seen."""
        ties = self.draw_ties(train_relevance(bank).queries)
        return search_vectors(self.embed_train(bank), self.vectors, ties, k)

    def own_vectors(self, bank: Bank) -> NDArray[np.float32]:
        """Vectors [n_train, most, d] of each train query's own tools; zeros where padded.

        They are those of `vectors`: a tool's vector is of its text alone.
        """
        tools = train_relevance(bank).tools
        return np.where(tools[:, :, None] >= 0, self.vectors[tools], np.float32(0))

    def read(self, tools: Sequence[Tool]) -> list[str]:
        """The tools' texts, short or full."""
        return [_TEXTS[self.config.text](tool) for tool in tools]
