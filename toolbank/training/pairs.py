"""Rows of texts for a sentence encoder's loss, by the texts' tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from toolbank.system.errors import InputError
from toolbank.training.text import Ids, pad, pad_id
from toolbank.training.trainers import EpochBatches, EpochSampler

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_AT_ONCE = 256


def encode_texts(
    encoder: SentenceTransformer, texts: Sequence[str], max_length: int
) -> list[Ids]:
    """Token ids of each text as the encoder itself makes them, at most `max_length`.

    Raises:
        InputError: it is no transformer, so that there is nothing to pad.
    """
    found: list[Ids] = []
    for start in range(0, len(texts), _AT_ONCE):
        batch = encoder.preprocess(list(texts[start : start + _AT_ONCE]))
        if "attention_mask" not in batch:
            raise InputError(
                "encoder.model: not a transformer; it can't be trained further. Take another "
                "one, such as all-MiniLM-L6-v2."
            )
        for ids, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True):
            found.append(_cut(ids[mask.bool()].tolist(), max_length))
    return found


def sample_by_length(lengths: Sequence[int]) -> Callable[..., EpochBatches]:
    """What makes batches of rows [n_rows] of like length."""

    def make(dataset: Any, *, seed: int, **settings: Any) -> EpochBatches:
        rows = EpochSampler(len(dataset), seed, settings["batch_size"], lengths)
        return EpochBatches(rows, seed=seed, **settings)

    return make


class PairCollator:
    """Makes of rows of positions what sentence-transformers' losses read."""

    valid_label_columns = ("label",)

    def __init__(
        self, encoder: SentenceTransformer, ids: Sequence[Ids], columns: Sequence[str]
    ) -> None:
        self._pad_id = pad_id(encoder.tokenizer)
        self._ids = ids
        self._columns = columns

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Per column its `input_ids` and `attention_mask`; and the rows' `label`."""
        batch: dict[str, torch.Tensor] = {}
        for column in self._columns:
            padded = pad([self._ids[row[column]] for row in rows], self._pad_id)
            batch |= {f"{column}_{name}": values for name, values in padded.items()}
        batch["label"] = torch.tensor([row["label"] for row in rows])
        return batch


def _cut(ids: Ids, max_length: int) -> Ids:
    """The first ids, and the last, which ends a text."""
    return ids if len(ids) <= max_length else [*ids[: max_length - 1], ids[-1]]
