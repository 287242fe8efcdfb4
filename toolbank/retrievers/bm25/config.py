"""Configuration of BM25."""

from typing import ClassVar, Literal

from pydantic import Field

from toolbank.retrievers.kind import Baseline, RetrieverConfig, RetrieverKind


class Bm25Config(RetrieverConfig):
    """BM25 over the tools' names and descriptions, and the requests that use them if so said."""

    score: ClassVar[str] = "BM25, a sum over the words in common: 0 without any"

    type: Literal["bm25"] = "bm25"
    requests: bool = Field(
        default=False,
        description="index the train queries that use a tool with its text",
    )

    @property
    def folds(self) -> int:
        """More with requests, as each part is indexed in no time."""
        return 10 if self.requests else super().folds

    @property
    def needs_queries(self) -> bool:
        """Only to index them."""
        return self.requests

    @property
    def lexical(self) -> bool:
        """By the words of the tools' texts."""
        return True

    @property
    def baseline(self) -> Baseline | None:
        """What words alone can do, if it learns from no request."""
        return None if self.requests else "words"


KIND = RetrieverKind(Bm25Config, "toolbank.retrievers.bm25.retriever:Bm25Retriever")
