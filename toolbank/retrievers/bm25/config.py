"""Configuration of BM25."""

from typing import ClassVar, Literal

from toolbank.retrievers.kind import Baseline, RetrieverConfig, RetrieverKind


class Bm25Config(RetrieverConfig):
    """BM25 over the tools' names and descriptions."""

    score: ClassVar[str] = "BM25, a sum over the words in common: 0 without any"

    type: Literal["bm25"] = "bm25"

    @property
    def needs_queries(self) -> bool:
        """It indexes the tools' texts alone."""
        return False

    @property
    def lexical(self) -> bool:
        """By the words of the tools' texts."""
        return True

    @property
    def baseline(self) -> Baseline:
        """What words alone can do."""
        return "words"


KIND = RetrieverKind(Bm25Config, "toolbank.retrievers.bm25.retriever:Bm25Retriever")
