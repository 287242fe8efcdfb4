"""Configuration of ToolRefiner."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from toolbank.encoders.sentence import SentenceConfig
from toolbank.retrievers.kind import RetrieverKind, TwoStageConfig, plan_training
from toolbank.training.config import TrainingConfig

if TYPE_CHECKING:
    from toolbank.bank.bank import Bank
    from toolbank.training.config import PlannedTraining


class RefinerTraining(TrainingConfig):
    """For a body of MiniLM's size on a few thousand queries.

    The paper trains DeBERTa-v3-xsmall for 30 epochs, with a learning rate of 8e-4, batches of
    32, a weight decay of 0.01, 100 warm-up steps and a cosine schedule.
    """

    epochs: float = Field(default=10, gt=0, description="passes over the train queries")
    learning_rate: float = Field(default=3e-4, gt=0, description="its highest")
    schedule: Literal["linear", "cosine", "constant"] = Field(
        default="cosine", description="of the learning rate after the warm-up"
    )


class RefinerConfig(TwoStageConfig):
    """Judge the candidates of a first stage together with the request."""

    score: ClassVar[str] = (
        "a learned logit that the request needs the tool: compare it within one search, where the "
        "right tool may well be below 0"
    )

    type: Literal["refiner"] = "refiner"
    first_stage: str = Field(
        default="tool2vec", description="a retriever of the recipe"
    )
    vectors: str = Field(
        default="tool2vec",
        description="the retriever whose vectors stand for the tools",
    )
    candidates: int = Field(
        default=64, ge=1, description="hits of the first stage that are judged"
    )
    encoder: SentenceConfig = SentenceConfig()
    training: RefinerTraining = RefinerTraining()

    @property
    def needs(self) -> tuple[str, ...]:
        """Its first stage, and whose vectors it reads."""
        return tuple(dict.fromkeys((self.first_stage, self.vectors)))

    @property
    def needs_vectors(self) -> str:
        """Whose vectors it reads."""
        return self.vectors

    @property
    def learns_from(self) -> str:
        """Its first stage."""
        return self.first_stage

    def plan_trainings(self, bank: Bank, seed: int) -> list[PlannedTraining]:  # noqa: ARG002
        """That of its network."""
        queries = len(bank.train_queries)
        task = f"{self.candidates} candidates"
        return [plan_training(self.label, task, self.encoder, self.training, queries)]


KIND = RetrieverKind(
    RefinerConfig, "toolbank.retrievers.refiner.retriever:RefinerRetriever"
)
