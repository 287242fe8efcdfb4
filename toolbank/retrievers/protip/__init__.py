"""ProTIP: one tool after the other, each subtracted from the request (arXiv 2312.10332); its settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from toolbank.encoders.model import load_model
from toolbank.encoders.sentence import SentenceConfig
from toolbank.retrievers.kind import RetrieverConfig, RetrieverKind, plan_training
from toolbank.training.config import TrainingConfig

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from toolbank.bank.bank import Bank
    from toolbank.training.config import PlannedTraining


class ProtipTraining(TrainingConfig):
    """Defaults of ProTIP."""

    epochs: float = Field(default=10, gt=0, description="passes over the train queries")
    learning_rate: float = Field(default=1e-4, gt=0, description="its highest")


class ProtipConfig(RetrieverConfig):
    """Find the tools of a plan in its order; needs queries whose tools are ordered.

    Published: BERT-base-uncased, random negatives; the margin is not told. Here the random
    negatives of a batch are shared by its plans, so that no tool comes near a request without
    having been one of its negatives. Hard ones alone are found anew too seldom for a short
    training.
    """

    needs_order: ClassVar[bool] = True

    score: ClassVar[str] = (
        "the log-odds that the hit is right: above 0 more likely than not"
    )

    type: Literal["protip"] = "protip"
    encoder: SentenceConfig = SentenceConfig()
    margin: float = Field(
        default=0.35,
        gt=0,
        description="in mean distances between requests and tools before training",
    )
    negatives: Literal["random", "hard"] = Field(
        default="random",
        description="hard: the nearest tools that are not the plan's, found anew each epoch",
    )
    steps: int = Field(default=6, ge=1, description="of a search, at most")
    training: ProtipTraining = ProtipTraining()

    def plan_trainings(self, bank: Bank, seed: int) -> list[PlannedTraining]:
        """That of its encoder.

        Raises:
            InputError: the order of the bank's tools means nothing.
        """
        from toolbank.retrievers.protip.plans import divide_plans

        plans, _ = divide_plans(bank, seed)
        task = f"plans, {self.negatives} negatives"
        return [
            plan_training(self.label, task, self.encoder, self.training, len(plans))
        ]


KIND = RetrieverKind(
    ProtipConfig, "toolbank.retrievers.protip.retriever:ProtipRetriever"
)


def mean_encoder(name: str, max_length: int) -> SentenceTransformer:
    """The body of an encoder under a mean of tokens, whatever it is pooled by elsewhere.

    Vectors keep their lengths: ProTIP subtracts them, and compares by L2 distance.

    Raises:
        InputError: there is no such model, or it can't be had or read.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    body: Any = load_model(name)[0]
    width = body.get_embedding_dimension()
    encoder = SentenceTransformer(modules=[body, Pooling(width, "mean")])
    encoder.max_seq_length = min(max_length, encoder.max_seq_length or max_length)
    return encoder


def embed(
    encoder: SentenceTransformer, texts: Sequence[str], batch_size: int
) -> NDArray[np.float32]:
    """Vectors [n, d] of texts, not normalised."""
    if not texts:
        return np.zeros((0, encoder.get_embedding_dimension() or 0), np.float32)
    return np.asarray(
        encoder.encode(
            list(texts),
            prompt="",
            batch_size=batch_size,
            normalize_embeddings=False,
            show_progress_bar=False,
        ),
        dtype=np.float32,
    )
