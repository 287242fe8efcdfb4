"""Configuration of the retrievers, one model a method."""

from typing import Annotated, Literal

from pydantic import Field

from toolbank.encoders.config import EncoderConfig
from toolbank.encoders.finetune.config import EncoderTraining, PairKind
from toolbank.retrievers.decomposition.config import DecompositionConfig
from toolbank.retrievers.method import MethodConfig
from toolbank.retrievers.mlc.config import MlcConfig
from toolbank.retrievers.nnn.config import NnnConfig
from toolbank.retrievers.protip.config import ProtipConfig
from toolbank.retrievers.refiner.config import RefinerConfig


class Bm25Config(MethodConfig):
    """BM25 over the tools' names and descriptions."""

    type: Literal["bm25"] = "bm25"


class DescriptionsTraining(EncoderTraining):
    """Requests are drawn to the descriptions that they are searched by."""

    pairs: tuple[PairKind, ...] = Field(default=("query-description",), min_length=1)


class DescriptionsConfig(MethodConfig):
    """Cosine between the request and the tools' embedded descriptions."""

    type: Literal["descriptions"] = "descriptions"
    encoder: EncoderConfig = EncoderConfig()
    text: Literal["summary", "full"] = Field(
        default="summary",
        description="full: the description and the parameters too, as far as the encoder reads",
    )
    training: DescriptionsTraining | None = Field(
        default=None, description="of the encoder; unset: it stays as it is"
    )


class NearestConfig(MethodConfig):
    """The tools of the most similar train queries."""

    type: Literal["nearest"] = "nearest"
    by: Literal["embedding", "bm25"] = Field(
        default="embedding", description="what similar means; bm25 uses no encoder"
    )
    encoder: EncoderConfig = EncoderConfig()
    neighbours: int = Field(default=10, ge=1)


class Tool2VecConfig(MethodConfig):
    """Cosine between the request and the mean of the queries that use a tool."""

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


RetrieverConfig = Annotated[
    Bm25Config
    | DescriptionsConfig
    | NearestConfig
    | Tool2VecConfig
    | MlcConfig
    | RefinerConfig
    | ProtipConfig
    | NnnConfig
    | DecompositionConfig,
    Field(discriminator="type"),
]
