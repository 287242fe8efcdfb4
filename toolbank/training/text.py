"""Tokenize texts once, and pad them batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

Ids = list[int]


def tokenise(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], max_length: int
) -> list[Ids]:
    """Tokenize texts, with special tokens, to at most `max_length` ids each."""
    if not texts:
        return []
    encoded = tokenizer(
        list(texts),
        truncation=True,
        max_length=max_length,
        return_attention_mask=False,
        return_token_type_ids=False,
    )
    return [list(ids) for ids in encoded["input_ids"]]


def pad(ids: Sequence[Ids], pad_id: int) -> dict[str, torch.Tensor]:
    """Pad a batch on the right: `input_ids` and `attention_mask` [n, longest]."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    rows = [torch.tensor(row, dtype=torch.long) for row in ids]
    ones = [torch.ones_like(row) for row in rows]
    return {
        "input_ids": pad_sequence(rows, batch_first=True, padding_value=pad_id),
        "attention_mask": pad_sequence(ones, batch_first=True, padding_value=0),
    }


def batches_by_length(lengths: Sequence[int], size: int) -> Iterator[list[int]]:
    """Batch positions by length, longest first, so a batch has little padding."""
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    for start in range(0, len(order), size):
        yield order[start : start + size]


def pad_id(tokenizer: PreTrainedTokenizerBase) -> int:
    """The id that `pad` pads with."""
    found: Any = getattr(tokenizer, "pad_token_id", None)
    return 0 if found is None else int(found)
