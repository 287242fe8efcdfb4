"""Multiple negatives ranking that knows its false negatives."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import (
    MultipleNegativesRankingLoss,
)
from torch import Tensor

from toolbank.encoders.finetune.embed_once import embed_once
from toolbank.encoders.finetune.masking import SharedTools, ranking_losses


class MaskedRankingLoss(MultipleNegativesRankingLoss):
    """The library's loss, without the candidates that share a tool with the anchor.

    A batch's labels are the numbers of its rows. A text that stands in several of them is
    embedded once.
    """

    def __init__(
        self, model: SentenceTransformer, shared: SharedTools, scale: float
    ) -> None:
        super().__init__(model, scale=scale)
        self._shared = shared

    def forward(
        self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor
    ) -> Tensor:
        """The mean over the batch, of the columns' tokens."""
        embeddings = embed_once(self.model, list(sentence_features))
        return self.compute_loss_from_embeddings(embeddings, labels)

    def compute_loss_from_embeddings(
        self, embeddings: list[Tensor], labels: Tensor
    ) -> Tensor:
        """The mean over the batch: `embeddings` [batch, d] of anchors, positives, negatives."""
        anchors, *others = embeddings
        own = torch.arange(len(anchors), device=anchors.device)
        excluded = self._shared.excluded(labels, slice(None))
        return ranking_losses(
            anchors, torch.cat(others), own, excluded, self.scale
        ).mean()
