"""From the states of a text's tokens to one vector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbank.encoders.layers.config import Pooling

if TYPE_CHECKING:
    import torch


def pool(states: torch.Tensor, mask: torch.Tensor, pooling: Pooling) -> torch.Tensor:
    """Vectors [n, d] of texts, as float32: the sum or mean of their states, or the last one.

    `states` is [n, tokens, d]; `mask` [n, tokens] is 1 at the tokens that count and 0 elsewhere, as
    at padding, whatever side that is on. Every text has such a token.
    """
    import torch

    if pooling in ("last", "mask"):
        places = torch.arange(mask.shape[1], device=mask.device)
        last = torch.where(mask > 0, places, -1).argmax(dim=1)
        return states[torch.arange(len(states), device=mask.device), last].float()
    # What stands at padding is anything, and may be infinite in half precision.
    kept = states.float().masked_fill(mask[..., None] == 0, 0.0)
    total = kept.sum(dim=1)
    return total if pooling == "sum" else total / mask.sum(dim=1, keepdim=True)
