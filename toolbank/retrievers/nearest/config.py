"""Configuration of nearest neighbours."""

from typing import ClassVar, Literal

from pydantic import Field

from toolbank.encoders import AnyEncoder
from toolbank.encoders.base import EncoderConfig
from toolbank.encoders.sentence import SentenceConfig
from toolbank.retrievers.kind import Baseline, RetrieverConfig, RetrieverKind


class NearestConfig(RetrieverConfig):
    """The tools of the most similar train queries."""

    score: ClassVar[str] = (
        "a tool's share of what similar requests used: 0 or less without any"
    )

    type: Literal["nearest"] = "nearest"
    by: Literal["embedding", "bm25"] = Field(
        default="embedding", description="what similar means; bm25 uses no encoder"
    )
    encoder: AnyEncoder = SentenceConfig()
    neighbours: int = Field(default=10, ge=1, description="train queries that vote")

    @property
    def encoders(self) -> tuple[EncoderConfig, ...]:
        """None by BM25."""
        return () if self.by == "bm25" else (self.encoder,)

    @property
    def lexical(self) -> bool:
        """By the words of train queries, if not by an encoder."""
        return self.by == "bm25"

    @property
    def baseline(self) -> Baseline:
        """What can be done by train queries without training."""
        return "nearest neighbours"


KIND = RetrieverKind(
    NearestConfig, "toolbank.retrievers.nearest.retriever:NearestRetriever"
)
