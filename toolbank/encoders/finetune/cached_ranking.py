"""Masked multiple negatives ranking whose batch need not fit into memory."""

from __future__ import annotations

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import (
    CachedMultipleNegativesRankingLoss,
)
from torch import Tensor

from toolbank.encoders.finetune.masking import SharedTools, ranking_losses


class CachedMaskedRankingLoss(CachedMultipleNegativesRankingLoss):
    """The library's gradient caching (arXiv 2101.06983) around `MaskedRankingLoss`.

    The same loss and gradients as that one, `mini_batch` texts in memory at once.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        shared: SharedTools,
        scale: float,
        mini_batch: int,
    ) -> None:
        super().__init__(model, scale=scale, mini_batch_size=mini_batch)
        self._shared = shared

    def calculate_loss(
        self,
        reps: list[list[Tensor]],
        labels: Tensor | None = None,
        *,
        with_backward: bool = False,
    ) -> Tensor:
        """The mean over the batch of embedded mini-batches, and its gradients if asked for."""
        assert labels is not None
        anchors, *others = (torch.cat(parts) for parts in reps)
        candidates = torch.cat(others)
        columns = torch.arange(len(anchors), device=anchors.device)
        total = torch.zeros((), device=anchors.device)
        for start in range(0, len(anchors), self.mini_batch_size):
            part = slice(start, start + self.mini_batch_size)
            excluded = self._shared.excluded(labels, part)
            losses = ranking_losses(
                anchors[part], candidates, columns[part], excluded, self.scale
            )
            loss = losses.sum() / len(anchors)
            if with_backward:
                loss.backward()  # type: ignore[no-untyped-call]
                loss = loss.detach()
            total = total + loss
        return total
