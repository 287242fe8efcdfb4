"""Configuration of BM25."""

from typing import Literal

from toolbank.retrievers.method import Baseline, RetrieverConfig, RetrieverKind


class Bm25Config(RetrieverConfig):
    """BM25 over the tools' names and descriptions."""

    type: Literal["bm25"] = "bm25"

    @property
    def baseline(self) -> Baseline:
        """What words alone can do."""
        return "words"


KIND = RetrieverKind(Bm25Config, "toolbank.retrievers.bm25.retriever:Bm25Retriever")
