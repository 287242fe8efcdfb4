"""Taking out of vectors what all of them have in common."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_PSEUDO_TEXTS = 20


def common_part(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The mean [d] of unit vectors [n, d], drawn toward zero where n is small.

    As if 20 vectors more had lain at zero, so that a handful of queries is not taken for all.
    """
    total = vectors.sum(axis=0, dtype=np.float64)
    return np.asarray(total / (len(vectors) + _PSEUDO_TEXTS), dtype=np.float32)


def take_out(
    common: NDArray[np.float32], vectors: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Unit vectors [n, d] less `common` [d], of unit length again."""
    rest = vectors - common
    lengths = np.linalg.norm(rest, axis=1, keepdims=True)
    return np.asarray(rest / np.maximum(lengths, 1e-9), dtype=np.float32)
