"""Tools as sums of the vectors of their queries and of their descriptions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Rows = slice | NDArray[np.int64]


@dataclass(frozen=True)
class Centroids:
    """Unit vectors of train queries [n, d] and of descriptions [n_tools, d], and their sums.

    `uses` [n, most] are the indices of each query's tools, padded with -1; `weights` [n] what a
    query counts for.
    """

    queries: NDArray[np.float32]
    descriptions: NDArray[np.float32]
    uses: NDArray[np.int64]
    weights: NDArray[np.float64]
    sums: NDArray[np.float64]

    @property
    def vectors(self) -> NDArray[np.float32]:
        """Unit vectors [n_tools, d] of the tools."""
        return unit_vectors(self.sums, self.descriptions)

    def without(self, rows: Rows) -> NDArray[np.float32]:
        """Unit vectors of these queries' tools, each as if its query were not in the sum.

        [n, most, d], parallel to `uses`; zeros where that is padded.
        """
        uses = self.uses[rows]
        weighted = self.weights[rows][:, None] * self.queries[rows]
        own = np.zeros((*uses.shape, self.sums.shape[1]), np.float32)
        for place, tools in enumerate(uses.T):
            used = np.flatnonzero(tools >= 0)
            own[used, place] = unit_vectors(
                self.sums[tools[used]] - weighted[used], self.descriptions[tools[used]]
            )
        return own


def make_centroids(
    queries: NDArray[np.float32],
    descriptions: NDArray[np.float32],
    uses: NDArray[np.int64],
    weights: NDArray[np.float64],
    description_weight: float,
) -> Centroids:
    """Sum up; a description counts for as many queries as its weight says."""
    sums = tool_sums(weights[:, None] * queries, descriptions, uses, description_weight)
    return Centroids(queries, descriptions, uses, weights, sums)


def tool_sums(
    queries: NDArray[np.floating],
    descriptions: NDArray[np.float32],
    uses: NDArray[np.int64],
    description_weight: float,
) -> NDArray[np.float64]:
    """Sums [n_tools, d] of the vectors of a tool's queries and of its weighted description.

    `uses` [n_queries, most] are the indices of each query's tools, padded with -1.
    """
    query_of, place = np.nonzero(uses >= 0)
    sums = description_weight * descriptions.astype(np.float64)
    np.add.at(sums, uses[query_of, place], queries[query_of].astype(np.float64))
    return sums


def unit_vectors(
    sums: NDArray[np.float64], descriptions: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Unit vectors [n, d] of sums; where nothing is left of one, the description instead."""
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    used = lengths > 1e-9
    vectors = np.where(used, sums / np.where(used, lengths, 1.0), descriptions)
    return vectors.astype(np.float32)
