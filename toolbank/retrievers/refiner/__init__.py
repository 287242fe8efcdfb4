"""ToolRefiner: a request and its candidates in one pass (arXiv 2409.02141, section 4.3); its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from toolbank.encoders.sentence import SentenceConfig
from toolbank.retrievers.kind import RetrieverKind, TwoStageConfig, plan_training
from toolbank.retrievers.unseen import regress
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


_PRIOR = np.array([2.0, 2.5, -5.4])
_PRIOR_WEIGHT = np.array([1.0, 1.0, 0.1])
_LEAST_SLOPE = 0.1


def first_stage_features(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """What a first stage thinks of its candidates [n, k, 2], by its falling scores [n, k].

    The score, less the mean and by the deviation of the request's candidates, so that it means
    the same whatever the first stage; and one over the rank. Zeros where there is no candidate,
    at scores of -inf.
    """
    features = np.zeros((*scores.shape, 2), np.float32)
    counts = np.isfinite(scores).sum(axis=1)
    for count in np.unique(counts[counts > 0]):
        rows = counts == count
        features[rows, :count] = _standardise(scores[rows, :count])
    return features


def fit_log_odds(
    features: NDArray[np.float32], labels: NDArray[np.bool_]
) -> tuple[NDArray[np.float32], float]:
    """Slopes [2] and intercept of a label's log-odds by these features alone.

    `features` [m, 2] and `labels` [m] are the candidates' of all requests. Drawn to what
    holds for Tool2Vec on UltraTool, so that few requests do; the slopes are above zero, so that
    the first stage's order is theirs.
    """
    found = regress(features, labels, _PRIOR, _PRIOR_WEIGHT, _LEAST_SLOPE)
    return found[:2].astype(np.float32), float(found[2])


def _standardise(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    apart = scores - scores.mean(axis=1, keepdims=True, dtype=np.float64)
    spread = np.maximum(apart.std(axis=1, keepdims=True), 1e-6)
    ranks = np.broadcast_to(1 / np.arange(1, scores.shape[1] + 1), scores.shape)
    return np.stack([apart / spread, ranks], axis=-1).astype(np.float32)
