"""ProTIP's encoder with its loss, as a Trainer trains it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from toolbank.retrievers.protip.loss import plan_loss

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


class PlanModel(nn.Module):
    """Encodes a batch's requests and tools with one encoder, each once; gives the loss."""

    def __init__(self, encoder: SentenceTransformer, margin: float) -> None:
        super().__init__()
        self.encoder = encoder
        self.margin = margin

    def forward(
        self,
        queries: dict[str, Tensor],
        tools: dict[str, Tensor],
        plans: Tensor,
        positives: Tensor,
        negatives: Tensor,
    ) -> dict[str, Tensor]:
        """The loss of a batch that `PlanCollator` made."""
        loss = plan_loss(
            self._embed(queries),
            self._embed(tools),
            plans,
            positives,
            negatives,
            self.margin,
        )
        return {"loss": loss}

    def _embed(self, tokens: dict[str, Tensor]) -> Tensor:
        vectors: Tensor = self.encoder(dict(tokens))["sentence_embedding"]
        return vectors.float()
