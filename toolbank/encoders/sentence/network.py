"""A sentence-transformers model as one network."""

from __future__ import annotations

from collections.abc import Iterable

import torch


class TextVectors(torch.nn.Module):
    """Tokens to vectors: all of a model's modules, and, with `unit`, the norm behind them."""

    def __init__(self, modules: Iterable[torch.nn.Module], *, unit: bool) -> None:
        super().__init__()
        self.parts, self.unit = torch.nn.ModuleList(list(modules)), unit

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        """Vectors [n, d] of tokens [n, l]."""
        features = {"input_ids": input_ids, "attention_mask": attention_mask}
        for part in self.parts:
            features = part(features)
        vectors = features["sentence_embedding"]
        return torch.nn.functional.normalize(vectors, dim=-1) if self.unit else vectors
