"""Where descriptions stand among others by the words that they share with a request."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toolbank.retrievers.lexical import LexicalIndex


class WordRanks:
    """Ranks of `documents` by BM25 among those of a fit, which need not be theirs any more.

    So the rank of one does not depend on what is added and removed beside it.
    """

    def __init__(self, fitted: tuple[str, ...], documents: tuple[str, ...]) -> None:
        places = {text: place for place, text in enumerate(fitted)}
        self.documents = documents
        self._places = np.array([places.get(text, -1) for text in documents], np.int64)
        self._index = LexicalIndex.of(fitted)
        added = [text for text in documents if text not in places]
        self._grown = LexicalIndex.of([*fitted, *added]) if added else None

    def find(
        self, queries: Sequence[str]
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """BM25 and ranks, both [n, n_documents]; of several that are as near, the last's."""
        fitted = self._index.scores(queries)
        scores = fitted[:, self._places]
        ranks = _count_above(fitted, fitted)[:, self._places]
        if self._grown is not None:
            grown, added = self._grown.scores(queries), self._places < 0
            others, own = np.split(grown, [fitted.shape[1]], axis=1)
            scores[:, added], ranks[:, added] = own, _count_above(own, others) + 1
        return scores, ranks


def _count_above(
    own: NDArray[np.float32], others: NDArray[np.float32]
) -> NDArray[np.float64]:
    """How many of a row of others [n, m] are as high as each of its own [n, k], or higher."""
    counts = np.zeros(own.shape)
    for row, mine, all_others in zip(counts, own, others, strict=True):
        row[:] = len(all_others) - np.searchsorted(np.sort(all_others), mine)
    return counts
