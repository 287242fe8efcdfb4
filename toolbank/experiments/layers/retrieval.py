"""How well vectors of questions find those of documents, by exact search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.ranking import Ties, cosine_scores, rank_gold

Distance = Literal["cosine", "euclidean"]
"""By what vectors are compared; a flat FAISS index does it by Euclidean distance."""

Vectors = NDArray[np.float32]

METRICS = ("recall@1", "recall@5", "recall@10", "mrr")
_DEPTHS = (1, 5, 10)


def measure(
    score: Callable[[slice], NDArray[np.float32]], ties: Ties, gold: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Values [n_questions, 4] of each of `METRICS`; `score` gives [n, n_documents] of a slice.

    A question has one document, `gold`; its reciprocal rank counts however far down it is.
    """
    ranks = rank_gold(score, ties, gold)
    return np.stack([*(ranks <= k for k in _DEPTHS), 1 / ranks], axis=1)


def compare(
    questions: Vectors, documents: Vectors, distance: Distance
) -> Callable[[slice], NDArray[np.float32]]:
    """Scores of vectors [n, d] against [m, d]: the higher, the nearer by that distance."""
    if distance == "cosine":
        own, others = unit(questions), unit(documents)
        return lambda rows: cosine_scores(own[rows], others)
    # -|q - v|^2 + |q|^2, which orders the documents of a question as -|q - v| does.
    squares = np.square(documents).sum(axis=1)
    return lambda rows: 2 * questions[rows] @ documents.T - squares


def unit(vectors: Vectors) -> Vectors:
    """Vectors [n, d] of length one."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)
