"""Candidates by an approximate index, where there are too many vectors to compare with each."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.ranking import Hits, Ties, top_k
from toolbank.system.errors import InputError

EXACT = 100_000
"""Up to as many vectors all are compared: that takes under 10 ms."""
_FILE = "vectors.usearch"
_MORE = 4
_DEEPEST = 250
_PART = 1_000
# HNSW (arXiv 1603.09320): M, and how many are looked at when it is made and when it is searched.
_CONNECTIVITY, _EFFORT_MADE, _EFFORT = 16, 256, 512


class VectorIndex:
    """HNSW over vectors in 8 bits, mapped into memory from a file; threads may share one.

    It gives four candidates a hit, which are ranked by their exact cosines.
    """

    def __init__(self, index: Any) -> None:
        self._index = index

    @classmethod
    def read(cls, folder: Path, shape: tuple[int, ...]) -> Self | None:
        """The index that `write_index` left in a folder; None if it left none.

        Raises:
            InputError: it is damaged, or of other vectors than those of a shape [n, d].
            ImportError: usearch is not installed.
        """
        path = folder / _FILE
        if not path.is_file():
            return None
        from usearch.index import Index

        try:
            index = Index.restore(str(path), view=True, expansion_search=_EFFORT)
            fits = index is not None and (len(index), index.ndim) == shape
        except (RuntimeError, ValueError) as error:
            raise InputError(f"{path}: damaged ({error}). Pack it again.") from error
        if not fits:
            raise InputError(f"{path}: damaged (of other vectors). Pack it again.")
        return cls(index)

    @staticmethod
    def reaches(k: int) -> bool:
        """Whether the first k of all are to be had from it; more are searched for exactly."""
        return k * _MORE <= _DEEPEST

    def search(
        self,
        queries: NDArray[np.float32],
        vectors: NDArray[np.float32],
        ties: Ties,
        k: int,
    ) -> Hits:
        """The k nearest of `vectors` [m, d] to `queries` [n, d], but for those it overlooks."""
        found = [self._index.search(query, k * _MORE).keys for query in queries]
        least = min(map(len, found), default=0)
        candidates = np.stack([one[:least] for one in found]).astype(np.int64)
        cosines = np.einsum("nmd,nd->nm", vectors[candidates], queries)
        places, scores = top_k(
            np.round(cosines, 6).astype(np.float32), k, ties.order_of(candidates)
        )
        return np.take_along_axis(candidates, places, axis=1), scores


def write_index(vectors: NDArray[np.float32], folder: Path, exact: int = EXACT) -> None:
    """Write an index of unit vectors [n, d], if they are more than `exact`.

    By one thread: more would make another index each time.
    """
    if len(vectors) <= exact:
        return
    from tqdm import tqdm
    from usearch.index import Index

    folder.mkdir(parents=True, exist_ok=True)
    index = Index(
        ndim=vectors.shape[1],
        metric="ip",
        dtype="i8",
        connectivity=_CONNECTIVITY,
        expansion_add=_EFFORT_MADE,
    )
    with tqdm(total=len(vectors), desc="index", unit="vector", disable=None) as bar:
        for start in range(0, len(vectors), _PART):
            part = vectors[start : start + _PART]
            index.add(np.arange(start, start + len(part)), part, threads=1)
            bar.update(len(part))
    index.save(str(folder / _FILE))
