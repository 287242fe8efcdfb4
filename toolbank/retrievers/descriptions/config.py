"""Configuration of embedded descriptions."""

from typing import ClassVar, Literal

from pydantic import Field

from toolbank.encoders.finetune_data import EncoderTraining, PairKind
from toolbank.retrievers.kind import Baseline, DenseConfig, RetrieverKind


class DescriptionsTraining(EncoderTraining):
    """Requests are drawn to the descriptions that they are searched by."""

    pairs: tuple[PairKind, ...] = Field(
        default=("query-description",),
        min_length=1,
        description="what is drawn together: queries that share a tool, a query and its tools",
    )


class DescriptionsConfig(DenseConfig):
    """Cosine between the request and the tools' embedded descriptions."""

    score: ClassVar[str] = "the cosine of request and description, from -1 to 1"

    type: Literal["descriptions"] = "descriptions"
    text: Literal["summary", "full"] = Field(
        default="summary",
        description="full: the description and the parameters too, as far as the encoder reads",
    )
    training: DescriptionsTraining | None = Field(
        default=None, description="of the encoder; unset: it stays as it is"
    )

    @property
    def needs_queries(self) -> bool:
        """Only to train its encoder."""
        return self.training is not None

    @property
    def baseline(self) -> Baseline | None:
        """What can be done without queries, if its encoder is not trained on any."""
        return None if self.training else "descriptions"


KIND = RetrieverKind(
    DescriptionsConfig,
    "toolbank.retrievers.descriptions.retriever:DescriptionsRetriever",
)
