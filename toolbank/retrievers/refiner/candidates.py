"""What the refiner reads of a request: its tokens and a first stage's candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from toolbank.evaluation.metrics import find_gold
from toolbank.retrievers.protocol import Hits
from toolbank.training.text import Ids, pad

Row = Mapping[str, Any]

_DESCRIBED = 0.15


@dataclass(frozen=True)
class Rows(Sequence[Row]):
    """A row a request: its token ids, and of each candidate the vector, the standing, the label.

    Vectors are put together when a row is taken: all of them at once would fill the memory.
    Those in `own` [n, most, d] go before `vectors` [n_tools, d] for the tools in `own_tools`
    [n, most]; and where `described` [n, n_candidates] says so, `descriptions` [n_tools, d] go
    before both.
    """

    ids: Sequence[Ids]
    candidates: NDArray[np.int64]
    standing: NDArray[np.float32]
    vectors: NDArray[np.float32]
    labels: NDArray[np.bool_] | None = None
    weights: NDArray[np.float64] | None = None
    own_tools: NDArray[np.int64] | None = None
    own: NDArray[np.float32] | None = None
    described: NDArray[np.bool_] | None = None
    descriptions: NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: Any) -> Any:
        candidates = self.candidates[index]
        vectors = self.vectors[candidates]
        if self.own is not None and self.own_tools is not None:
            place, which = np.nonzero(candidates[:, None] == self.own_tools[index])
            vectors[place] = self.own[index, which]
        if self.described is not None and self.descriptions is not None:
            described = self.described[index]
            vectors[described] = self.descriptions[candidates[described]]
        row = {
            "ids": self.ids[index],
            "vectors": vectors,
            "standing": self.standing[index],
        }
        if self.labels is not None and self.weights is not None:
            row |= {"labels": self.labels[index], "weight": self.weights[index]}
        return row


def search_rows(ids: Sequence[Ids], hits: Hits, vectors: NDArray[np.float32]) -> Rows:
    """Rows of requests to be searched for."""
    return Rows(ids, hits[0], describe_standing(hits[1]), vectors)


def train_rows(
    ids: Sequence[Ids],
    hits: Hits,
    own_tools: NDArray[np.int64],
    own: NDArray[np.float32],
    vectors: NDArray[np.float32],
    descriptions: NDArray[np.float32],
    weights: NDArray[np.float64],
    seed: int,
) -> Rows:
    """Rows of train queries, by hits of a first stage that has not seen them.

    A query's own tools, `own_tools` [n, most] padded with -1, have the vectors `own`
    [n, most, d], made without it. Those that the first stage missed are not put in: they will
    be missed at search as well. A fixed 15 % of the candidates, drawn by the seed, have their
    descriptions' vectors: so tools that no query uses, which have no other, are judged as
    fairly as the rest. `weights` [n] say how much each query counts.
    """
    random = np.random.default_rng(seed % 2**32)
    return Rows(
        ids,
        hits[0],
        describe_standing(hits[1]),
        vectors,
        labels=find_gold(hits[0], own_tools),
        weights=weights,
        own_tools=own_tools,
        own=own,
        described=random.random(hits[0].shape) < _DESCRIBED,
        descriptions=descriptions,
    )


def describe_standing(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """What a first stage thinks of its candidates [n, k, 2], by its falling scores [n, k].

    The score, less the mean and by the deviation of the request's candidates, so that it means
    the same whatever the first stage; and one over the rank.
    """
    apart = scores - scores.mean(axis=1, keepdims=True, dtype=np.float64)
    spread = np.maximum(apart.std(axis=1, keepdims=True), 1e-6)
    ranks = np.broadcast_to(1 / np.arange(1, scores.shape[1] + 1), scores.shape)
    return np.stack([apart / spread, ranks], axis=-1).astype(np.float32)


def collate(rows: Sequence[Row], pad_id: int) -> dict[str, torch.Tensor]:
    """Rows as the model's inputs, padded to the longest request and the most candidates."""
    most = max(len(row["standing"]) for row in rows)
    batch = pad([row["ids"] for row in rows], pad_id)
    names = ("vectors", "standing", *(["labels"] if "labels" in rows[0] else []))
    for name in names:
        batch[name] = torch.from_numpy(np.stack([_fill(r[name], most) for r in rows]))
    real = [_fill(np.ones(len(row["standing"]), np.int64), most) for row in rows]
    batch["candidate_mask"] = torch.from_numpy(np.stack(real))
    if "weight" in rows[0]:
        batch["weights"] = torch.tensor([row["weight"] for row in rows])
    return batch


def _fill(values: NDArray[Any], length: int) -> NDArray[Any]:
    """`values` with zeros after them, up to `length` in the first axis."""
    missing = length - len(values)
    return np.pad(values, [(0, missing), *[(0, 0)] * (values.ndim - 1)])
