"""Configuration of the non-negative elastic net."""

from typing import ClassVar, Literal

from pydantic import Field

from toolbank.retrievers.kind import RetrieverKind, TwoStageConfig


class NnnConfig(TwoStageConfig):
    """Explain the request's vector as a sum of few tools' vectors.

    Strengths that are unset are chosen on the bank's validation queries; without any, they are
    0.3 and 3.
    """

    score: ClassVar[str] = (
        "1 + a tool's weight in what explains the request; of others, below 1, the cosine"
    )

    type: Literal["nnn"] = "nnn"
    first_stage: str = Field(
        default="tool2vec", description="a dense retriever of the recipe"
    )
    candidates: int = Field(
        default=64, ge=1, description="hits of the first stage that are weighed"
    )
    l1: float | None = Field(default=None, ge=0, description="more, fewer tools")
    l2: float | None = Field(
        default=None, ge=0, description="more, and the weights are more alike"
    )

    @property
    def needs_queries(self) -> bool:
        """It learns nothing but its strengths, from validation queries where there are any."""
        return False

    @property
    def needs_vectors(self) -> str:
        """Its first stage."""
        return self.first_stage


KIND = RetrieverKind(NnnConfig, "toolbank.retrievers.nnn.retriever:NnnRetriever")
