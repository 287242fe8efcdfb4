"""Configuration of the retrievers, one model a method."""

from typing import Annotated, Literal

from pydantic import Field

from toolbank.config import Config
from toolbank.encoders.config import EncoderConfig


class Bm25Config(Config):
    """BM25 over the tools' names and descriptions."""

    type: Literal["bm25"] = "bm25"


class DescriptionsConfig(Config):
    """Cosine between the request and the tools' embedded descriptions."""

    type: Literal["descriptions"] = "descriptions"
    encoder: EncoderConfig = EncoderConfig()


class NearestConfig(Config):
    """The tools of the most similar train queries."""

    type: Literal["nearest"] = "nearest"
    encoder: EncoderConfig = EncoderConfig()
    neighbours: int = Field(default=10, ge=1)


class Tool2VecConfig(Config):
    """Cosine between the request and the mean of the queries that use a tool."""

    type: Literal["tool2vec"] = "tool2vec"
    encoder: EncoderConfig = EncoderConfig()
    description_weight: float = Field(
        default=2.0, ge=0, description="queries that the description counts for"
    )
    centre: bool = Field(
        default=True, description="take out what all queries have in common"
    )


RetrieverConfig = Annotated[
    Bm25Config | DescriptionsConfig | NearestConfig | Tool2VecConfig,
    Field(discriminator="type"),
]
