"""Settings of the sentence encoders and of their fine-tuning."""

from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from toolbank.config.base import NAME_OR_PATH, Transport
from toolbank.encoders.config import EncoderKind, PrefixedConfig
from toolbank.training.config import TrainingConfig

DEFAULT_MODEL = "all-MiniLM-L6-v2"


class SentenceConfig(PrefixedConfig):
    """A sentence-transformers model and the prefixes of its inputs.

    A recipe may give the name of the model alone.
    """

    model_config = ConfigDict(
        json_schema_extra={"type": ["object", "string"], **NAME_OR_PATH}
    )
    trains: ClassVar[bool] = True

    # Transport, so that runs from before this key stay up to date.
    type: Transport[Literal["sentence"]] = "sentence"
    model: str = Field(
        default=DEFAULT_MODEL,
        description=(
            "hub name or folder (./name, /path) of a sentence encoder; the value `toolbank`"
            " means the default encoder with the bundled LoRA adapter"
        ),
        json_schema_extra=NAME_OR_PATH,
    )
    run: Path | None = Field(
        default=None,
        description="a run folder whose fine-tuned encoder is used instead of `model`",
    )
    retriever: Transport[str] = Field(
        default="",
        description="if the run has several fine-tuned encoders: the retriever whose encoder to use",
    )

    @property
    def label(self) -> str:
        """The name for messages: the model's name or folder, or the run's folder."""
        return self.model if self.run is None else str(self.run)

    @model_validator(mode="after")
    def _names_one(self) -> Self:
        if self.run is not None and self.model != DEFAULT_MODEL:
            raise ValueError("`run` takes the place of `model`; remove one of the two")
        if self.retriever and self.run is None:
            raise ValueError("`retriever` is one of a run; say which by `run`")
        return self


KIND = EncoderKind(SentenceConfig, "toolbank.encoders.model:SentenceEncoder")


PairKind = Literal["query-query", "query-description"]


class EncoderTraining(TrainingConfig):
    """How an encoder is fine-tuned before it embeds the tools.

    Tool2Vec as published (arXiv 2409.02141): loss triplet, pairs query-query, epochs 1,
    batch_size 32, learning_rate 2e-5, warmup 100.
    """

    epochs: float = Field(default=2, gt=0, description="passes over the train queries")
    batch_size: int = Field(default=64, ge=2, description="per device")
    loss: Literal["mnrl", "triplet"] = Field(
        default="mnrl",
        description="mnrl: multiple negatives ranking, with in-batch negatives",
    )
    pairs: tuple[PairKind, ...] = Field(
        default=("query-query", "query-description"),
        min_length=1,
        description=(
            "positive pairs; query-query: two queries that share a tool; query-description:"
            " a query and the description of one of its tools"
        ),
    )
    scale: float = Field(default=20, gt=0, description="of cosines (mnrl)")
    margin: float = Field(
        default=0.3, gt=0, lt=2, description="between cosines (triplet)"
    )
    hard_negatives: int = Field(
        default=0,
        ge=0,
        description="number of hard negatives per pair: the nearest texts that share no tool with it; with triplet, 0 means one random negative",
    )
    mini_batch: int = Field(
        default=0,
        ge=0,
        description="texts in memory at once (mnrl, by gradient caching); 0: the whole batch",
    )

    @property
    def negatives(self) -> int:
        """The number of negatives of each pair."""
        return 1 if self.loss == "triplet" else self.hard_negatives

    @model_validator(mode="after")
    def _fits_the_loss(self) -> Self:
        if self.loss == "triplet" and (self.hard_negatives > 1 or self.mini_batch):
            raise ValueError("triplet takes one negative per pair, and no mini_batch")
        return self
