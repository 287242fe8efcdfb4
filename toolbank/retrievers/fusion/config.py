"""Configuration of score fusion."""

from typing import ClassVar, Literal

from pydantic import Field

from toolbank.retrievers.kind import RetrieverKind, TwoStageConfig


class FusionConfig(TwoStageConfig):
    """The sum of several retrievers' scores, each brought to one scale: hybrid search."""

    score: ClassVar[str] = (
        "standard deviations above the hits of each retriever, on average: compare it within one "
        "search"
    )
    scores_compare: ClassVar[bool] = False
    combines: ClassVar[bool] = True

    type: Literal["fusion"] = "fusion"
    first_stage: str = Field(
        default="tool2vec", description="a retriever of the recipe"
    )
    beside: tuple[str, ...] = Field(
        default=("bm25",), min_length=1, description="others that count as much"
    )
    candidates: int = Field(
        default=100,
        ge=1,
        description="first hits of each that are weighed; others come last",
    )

    @property
    def needs_queries(self) -> bool:
        """It learns nothing of its own."""
        return False

    @property
    def needs(self) -> tuple[str, ...]:
        """All whose scores it sums up."""
        return tuple(dict.fromkeys((self.first_stage, *self.beside)))


KIND = RetrieverKind(
    FusionConfig, "toolbank.retrievers.fusion.retriever:FusionRetriever"
)
