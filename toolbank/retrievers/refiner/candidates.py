"""What the refiner reads of a request: its tokens and a first stage's candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from toolbank.bank.ranking import Hits, find_gold
from toolbank.retrievers.refiner.first_stage import first_stage_features
from toolbank.retrievers.relevance import Relevance
from toolbank.training.text import Ids, pad

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Rows(Sequence[Row]):
    """A row a request: its token ids, and each candidate's vector and first stage's features.

    `candidates` [n, k] are places in `vectors` [n_tools, d], or -1 after a request's last one;
    `features` is [n, k, 2]. Vectors are put together when a row is taken: all of them at once
    would fill the memory.
    """

    ids: Sequence[Ids]
    candidates: NDArray[np.int64]
    features: NDArray[np.float32]
    vectors: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: Any) -> Any:
        candidates = self.found(index)
        return {
            "ids": self.ids[index],
            "vectors": self.vectors[candidates],
            "features": self.features[index, : len(candidates)],
        }

    def found(self, index: int) -> NDArray[np.int64]:
        """The candidates of a request, without the padding."""
        row: NDArray[np.int64] = self.candidates[index]
        return row[row >= 0]


@dataclass(frozen=True)
class TrainRows(Sequence[Row]):
    """`rows` with `labels` [n, k] and `weights` [n], and with vectors made without the query.

    A label is 1 or 0, or -1 where a candidate would serve in place of a tool that is needed.
    A query's own tools, `own_tools` [n, most] padded with -1, have the vectors `own`
    [n, most, d].
    """

    rows: Rows
    labels: NDArray[np.int8]
    weights: NDArray[np.float64]
    own_tools: NDArray[np.int64]
    own: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        row = self.rows[index]
        candidates = self.rows.found(index)
        n = len(candidates)
        place, which = np.nonzero(candidates[:, None] == self.own_tools[index])
        row["vectors"][place] = self.own[index, which]
        return {**row, "labels": self.labels[index, :n], "weight": self.weights[index]}


def search_rows(ids: Sequence[Ids], hits: Hits, vectors: NDArray[np.float32]) -> Rows:
    """Rows of requests to be searched for, by a first stage's hits."""
    return Rows(ids, hits[0], first_stage_features(hits[1]), vectors)


def train_rows(
    rows: Rows,
    relevance: Relevance,
    own: NDArray[np.float32],
) -> TrainRows:
    """Rows of the train queries, by hits of a first stage that has not seen them.

    Gold tools that the first stage missed are not put in: they will be missed at search as
    well.
    """
    labels = find_gold(rows.candidates, relevance.tools).astype(np.int8)
    labels[find_gold(rows.candidates, relevance.spared)] = -1
    return TrainRows(
        rows,
        labels=labels,
        weights=relevance.weights,
        own_tools=relevance.tools,
        own=own,
    )


def collate(rows: Sequence[Row], pad_id: int) -> dict[str, torch.Tensor]:
    """Rows as the model's inputs, padded to the longest request and the most candidates."""
    most = max(len(row["features"]) for row in rows)
    batch = pad([row["ids"] for row in rows], pad_id)
    names = ("vectors", "features", *(["labels"] if "labels" in rows[0] else []))
    for name in names:
        batch[name] = torch.from_numpy(np.stack([_fill(r[name], most) for r in rows]))
    real = [_fill(np.ones(len(row["features"]), np.int64), most) for row in rows]
    batch["candidate_mask"] = torch.from_numpy(np.stack(real))
    if "weight" in rows[0]:
        batch["weights"] = torch.tensor([row["weight"] for row in rows])
    return batch


def _fill(values: NDArray[Any], length: int) -> NDArray[Any]:
    """`values` with zeros after them, up to `length` in the first axis."""
    missing = length - len(values)
    return np.pad(values, [(0, missing), *[(0, 0)] * (values.ndim - 1)])
