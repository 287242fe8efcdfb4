"""Train queries as rows of a training, and rows as batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Rows = list[dict[str, Any]]


def make_rows(
    inputs: Sequence[Any],
    labels: NDArray[np.int64],
    spared: NDArray[np.int64],
    weights: NDArray[np.float64],
) -> Rows:
    """A row a query that has a label: what the model reads of it, its labels, its weight.

    `labels` [n, most] and `spared` [n, any], the labels of which it says nothing, are padded with
    -1; `weights` [n].
    """
    return [
        {
            "input": given,
            "labels": own[own >= 0],
            "spared": others[others >= 0],
            "weight": float(weight),
        }
        for given, own, others, weight in zip(
            inputs, labels, spared, weights, strict=True
        )
        if (own >= 0).any()
    ]


def stack_vectors(vectors: Sequence[NDArray[np.float32]]) -> dict[str, torch.Tensor]:
    """Vectors of some queries as the argument of what reads vectors."""
    return {"vectors": torch.from_numpy(np.stack(vectors))}


class Collator:
    """Makes a batch of rows; `batch` makes the model's arguments of what it reads of them."""

    def __init__(
        self, batch: Callable[[list[Any]], dict[str, torch.Tensor]], n_labels: int
    ) -> None:
        self._batch = batch
        self._n_labels = n_labels

    def __call__(self, rows: Rows) -> dict[str, torch.Tensor]:
        """The model's arguments, and `labels` [n, n_labels] and `weights` [n]."""
        labels = torch.zeros(len(rows), self._n_labels)
        for place, row in zip(labels, rows, strict=True):
            place[torch.from_numpy(row["spared"])] = -1
            place[torch.from_numpy(row["labels"])] = 1
        weights = torch.tensor([row["weight"] for row in rows])
        inputs = self._batch([row["input"] for row in rows])
        return {**inputs, "labels": labels, "weights": weights}
