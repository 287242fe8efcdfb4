"""Configuration of MLC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from toolbank.encoders.model import describe_architecture
from toolbank.encoders.sentence import SentenceConfig
from toolbank.retrievers.kind import RetrieverConfig, RetrieverKind
from toolbank.training.config import PlannedTraining, TrainingConfig, count_steps
from toolbank.training.ranks import world_size

if TYPE_CHECKING:
    from toolbank.bank.bank import Bank

_FROZEN_FOLDS = 5
# Of the last layer's own training: quick, as only a matrix is trained on features that stay.
_HEAD_EPOCHS, _HEAD_BATCH, _HEAD_LEARNING_RATE = 20, 128, 5e-3
_OF_A_HEAD = {"batch_size": 128, "learning_rate": 2e-3}


class MlcTraining(TrainingConfig):
    """As the paper trains it, but for fewer epochs: it has 100 on ToolBank, 30 on ToolBench.

    With `frozen`, unless said otherwise, the learning rate is 2e-3 and a batch has 128.
    """

    epochs: float = Field(default=20, gt=0, description="passes over the train queries")


class MlcConfig(RetrieverConfig):
    """Classify the request: a label a tool, all of them at once."""

    score: ClassVar[str] = (
        "a learned logit that the request needs the tool: compare it within one search, where the "
        "right tool may well be below 0"
    )

    type: Literal["mlc"] = "mlc"
    encoder: SentenceConfig = SentenceConfig()
    frozen: bool = Field(
        default=False,
        description="train a head on the encoder's vectors, and not its weights",
    )
    description_weight: float | None = Field(
        default=None,
        ge=0,
        description="queries that what Tool2Vec says of a tool counts for; unset: by validation, or 64",
    )
    training: MlcTraining = MlcTraining()

    @property
    def folds(self) -> int:
        """More where a part is trained quickly."""
        return _FROZEN_FOLDS if self.frozen else super().folds

    def plan_trainings(self, bank: Bank, seed: int) -> list[PlannedTraining]:  # noqa: ARG002
        """That of its last layer alone, unless it is frozen, and that of all weights."""
        from toolbank.retrievers.relevance import train_relevance

        uses = train_relevance(bank).tools
        labelled = int((uses >= 0).any(axis=1).sum())
        if not labelled:
            return []
        encoder = describe_architecture(self.encoder)
        last = suit_the_last_layer(self.training)
        kinds: tuple[tuple[str, str, str, TrainingConfig], ...] = (
            (name_last_layer(self), "labels of vectors", "1 layer", last),
            (self.label, "labels", encoder, self.training),
        )
        if self.frozen:
            kinds = ((self.label, "labels of vectors", "2 layers", self.training),)
        return [
            PlannedTraining(*kind, count_steps(labelled, kind[-1])) for kind in kinds
        ]

    @model_validator(mode="before")
    @classmethod
    def _suit_the_head(cls, data: Any) -> Any:
        if not isinstance(data, dict) or data.get("frozen") is not True:
            return data
        training = data.get("training", {})
        if isinstance(training, MlcTraining):
            training = training.model_dump(exclude_unset=True)
        if not isinstance(training, dict):
            return data
        return {**data, "training": {**_OF_A_HEAD, **training}}


def name_last_layer(config: MlcConfig) -> str:
    """What the training of the last layer alone is called."""
    return f"last layer of {config.label}"


def suit_the_last_layer(training: TrainingConfig) -> TrainingConfig:
    """The settings of the last layer's own training."""
    return training.model_copy(
        update={
            "epochs": _HEAD_EPOCHS,
            "batch_size": max(1, _HEAD_BATCH // world_size()),
            "accumulation": 1,
            "learning_rate": _HEAD_LEARNING_RATE,
        }
    )


KIND = RetrieverKind(MlcConfig, "toolbank.retrievers.mlc.retriever:MlcRetriever")
