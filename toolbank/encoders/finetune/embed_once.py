"""Vectors of a batch's texts, each text embedded once and beside others of like length."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

# As many as the library makes of a batch of pairs. More have less padding, but a GPU waits.
_PARTS = 2


def embed_once(
    model: torch.nn.Module, columns: Sequence[dict[str, Tensor]]
) -> list[Tensor]:
    """The vectors [batch, d] of each column's texts.

    A column has `input_ids` and `attention_mask` [batch, its longest], padded on the right. Where
    a text stands more than once, its gradients add up, as they would if it were embedded so often;
    dropout takes the same from all of them.
    """
    width = max(column["input_ids"].shape[1] for column in columns)
    ids, mask = (
        torch.cat([pad(c[name], (0, width - c[name].shape[1])) for c in columns])
        for name in ("input_ids", "attention_mask")
    )
    texts, places = torch.unique(ids * mask, dim=0, return_inverse=True)
    lengths = mask.new_zeros(len(texts)).index_copy_(0, places, mask.sum(dim=1))
    order = lengths.argsort(stable=True)
    vectors = []
    for part in order.chunk(_PARTS):
        longest = int(lengths[part[-1]])
        features = {
            "input_ids": texts[part, :longest],
            "attention_mask": (
                torch.arange(longest, device=mask.device) < lengths[part, None]
            ).to(mask.dtype),
        }
        vectors.append(model(features)["sentence_embedding"])
    found = torch.cat(vectors)[order.argsort()][places]
    return list(found.chunk(len(columns)))
