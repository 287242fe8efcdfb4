"""Configuration of an encoder's fine-tuning."""

from typing import Literal, Self

from pydantic import Field, model_validator

from toolbank.training.config import TrainingConfig

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
