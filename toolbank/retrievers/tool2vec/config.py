"""Configuration of Tool2Vec."""

from typing import ClassVar, Literal

from pydantic import Field

from toolbank.encoders.config import EncoderConfig
from toolbank.encoders.finetune.config import EncoderTraining
from toolbank.retrievers.method import RetrieverConfig, RetrieverKind


class Tool2VecConfig(RetrieverConfig):
    """Cosine between the request and the mean of the queries that use a tool."""

    has_vectors: ClassVar[bool] = True

    type: Literal["tool2vec"] = "tool2vec"
    encoder: EncoderConfig = EncoderConfig()
    description_weight: float = Field(
        default=2.0, ge=0, description="queries that the description counts for"
    )
    centre: bool = Field(
        default=True, description="take out what all queries have in common"
    )
    training: EncoderTraining | None = Field(
        default=None, description="of the encoder; unset: it stays as it is"
    )


KIND = RetrieverKind(
    Tool2VecConfig, "toolbank.retrievers.tool2vec.retriever:Tool2VecRetriever"
)
