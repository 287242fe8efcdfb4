"""Settings of the sentence encoders and of their fine-tuning."""

from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from toolbank.config.base import NAME_OR_PATH, Transport
from toolbank.encoders.config import EncoderConfig, EncoderKind
from toolbank.training.config import TrainingConfig

DEFAULT_MODEL = "all-MiniLM-L6-v2"


class SentenceConfig(EncoderConfig):
    """A sentence-transformers model and what is put before its inputs.

    A name alone stands for the model of that name.
    """

    model_config = ConfigDict(
        json_schema_extra={"type": ["object", "string"], **NAME_OR_PATH}
    )
    trains: ClassVar[bool] = True

    # Left out of what shapes a result: runs that are older than the key stay as they are.
    type: Transport[Literal["sentence"]] = "sentence"
    model: str = Field(
        default=DEFAULT_MODEL,
        description="hub name of a sentence encoder, or its folder, as ./name or /path; toolbank: "
        "the default one with the adapter that comes along",
        json_schema_extra=NAME_OR_PATH,
    )
    run: Path | None = Field(
        default=None,
        description="in place of model: a run's folder, for the encoder that it has fine-tuned",
    )
    retriever: Transport[str] = Field(
        default="", description="of that run; needed where it has tuned several"
    )
    query_prefix: str = Field(default="", description='such as "query: " for E5')
    document_prefix: str = Field(default="", description='such as "passage: "')
    batch_size: int = Field(default=64, ge=1, description="texts embedded at once")

    @property
    def label(self) -> str:
        """What people call it: the model's name or folder, or the run's folder."""
        return self.model if self.run is None else str(self.run)

    def as_query(self, text: str) -> str:
        """The request behind its prefix."""
        return self.query_prefix + text

    def as_document(self, text: str) -> str:
        """The description behind its prefix."""
        return self.document_prefix + text

    @model_validator(mode="after")
    def _names_one(self) -> Self:
        if self.run is not None and self.model != DEFAULT_MODEL:
            raise ValueError(
                "`run` takes the place of `model`; leave one of the two out"
            )
        if self.retriever and self.run is None:
            raise ValueError("`retriever` is one of a run; say which by `run`")
        return self


KIND = EncoderKind(SentenceConfig, "toolbank.encoders.model:SentenceEncoder")


PairKind = Literal["query-query", "query-description"]


class EncoderTraining(TrainingConfig):
    """How an encoder is fine-tuned before tools are embedded by it.

    Tool2Vec as published (arXiv 2409.02141): loss triplet, pairs query-query, epochs 1,
    batch_size 32, learning_rate 2e-5, warmup 100.
    """

    epochs: float = Field(default=2, gt=0, description="passes over the train queries")
    batch_size: int = Field(default=64, ge=2, description="of one device")
    loss: Literal["mnrl", "triplet"] = Field(
        default="mnrl",
        description="mnrl: multiple negatives ranking, the batch's other texts as negatives",
    )
    pairs: tuple[PairKind, ...] = Field(
        default=("query-query", "query-description"),
        min_length=1,
        description="what is drawn together: queries that share a tool, a query and its tools",
    )
    scale: float = Field(default=20, gt=0, description="of cosines; for mnrl")
    margin: float = Field(
        default=0.3, gt=0, lt=2, description="between cosines; for triplet"
    )
    hard_negatives: int = Field(
        default=0,
        ge=0,
        description="a pair: the nearest by the encoder that share no tool; triplet: "
        "0 is a random one",
    )
    mini_batch: int = Field(
        default=0,
        ge=0,
        description="texts in memory at once for mnrl, by gradient caching; 0: the whole batch",
    )

    @property
    def negatives(self) -> int:
        """How many negatives of its own each pair has."""
        return 1 if self.loss == "triplet" else self.hard_negatives

    @model_validator(mode="after")
    def _fits_the_loss(self) -> Self:
        if self.loss == "triplet" and (self.hard_negatives > 1 or self.mini_batch):
            raise ValueError("triplet takes one negative a pair, and no mini_batch")
        return self
