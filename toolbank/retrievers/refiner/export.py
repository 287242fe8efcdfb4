"""ToolRefiner's network as ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from toolbank.encoders.base import Precision
from toolbank.encoders.onnx_export import export_network
from toolbank.retrievers.refiner.model import RefinerModel

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class _Logits(torch.nn.Module):
    """The network's logits alone."""

    def __init__(self, model: RefinerModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        vectors: torch.Tensor,
        features: torch.Tensor,
        candidate_mask: torch.Tensor,
    ) -> torch.Tensor:
        logits: torch.Tensor = self.model(
            input_ids, attention_mask, vectors, features, candidate_mask
        )["logits"]
        return logits


def export_refiner(
    folder: Path,
    model: RefinerModel,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    width: int,
    precision: Precision,
) -> None:
    """Write the network for `OnnxNetwork`; it also reads the candidates, as the model does."""
    dims = {1: "candidates"}
    export_network(
        folder,
        _Logits(model),
        tokenizer,
        max_length,
        width,
        precision,
        {
            "vectors": (torch.zeros(1, 5, width), dims),
            "features": (torch.zeros(1, 5, 2), dims),
            "candidate_mask": (torch.ones(1, 5, dtype=torch.long), dims),
        },
    )
