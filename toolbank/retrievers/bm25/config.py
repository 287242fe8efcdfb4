"""Configuration of BM25."""

from typing import Literal

from toolbank.retrievers.method import RetrieverConfig, RetrieverKind


class Bm25Config(RetrieverConfig):
    """BM25 over the tools' names and descriptions."""

    type: Literal["bm25"] = "bm25"

    @property
    def baseline(self) -> str:
        """What words alone can do."""
        return "bm25"


KIND = RetrieverKind(Bm25Config, "toolbank.retrievers.bm25.retriever:Bm25Retriever")
