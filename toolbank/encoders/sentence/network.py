"""A sentence-transformers model as one network."""

from __future__ import annotations

from collections.abc import Iterable

import torch


class UnitVectors(torch.nn.Module):
    """Tokens to unit vectors: all of a model's modules, and the norm behind them."""

    def __init__(self, modules: Iterable[torch.nn.Module]) -> None:
        super().__init__()
        self.parts = torch.nn.ModuleList(list(modules))

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        """Unit vectors [n, d] of tokens [n, l]."""
        features = {"input_ids": input_ids, "attention_mask": attention_mask}
        for part in self.parts:
            features = part(features)
        return torch.nn.functional.normalize(features["sentence_embedding"], dim=-1)
