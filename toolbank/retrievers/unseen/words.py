"""Where descriptions stand among others by the words that they share with a request."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toolbank.retrievers.lexical import LexicalIndex


class WordRanks:
    """Ranks of `documents` by BM25 among those of a fit, which need not be theirs any more.

    So the rank of one does not depend on what is added and removed beside it. `index` is that of
    the fit's, `fitted`.
    """

    def __init__(
        self, index: LexicalIndex, fitted: tuple[str, ...], documents: tuple[str, ...]
    ) -> None:
        places = {text: place for place, text in enumerate(fitted)}
        self.documents = documents
        self._places = np.array([places.get(text, -1) for text in documents], np.int64)
        self._index = index
        added = [text for text in documents if text not in places]
        self._grown = LexicalIndex.of([*fitted, *added]) if added else None
        # Of an added document, its place among all of them.
        self._grown_places = len(fitted) - 1 + np.cumsum(self._places < 0)

    def find(
        self, queries: Sequence[str], documents: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """BM25 and ranks of some documents, both [n, m]; of several that are as near, the last's."""
        places = self._places[documents]
        fitted = self._index.scores(queries)
        scores = fitted[:, places]
        ranks = _count_above(scores, fitted)
        if self._grown is not None:
            added = np.flatnonzero(places < 0)
            grown = self._grown.scores(queries)
            own = grown[:, self._grown_places[documents[added]]]
            scores[:, added] = own
            ranks[:, added] = _count_above(own, grown[:, : fitted.shape[1]]) + 1
        return scores, ranks


def _count_above(
    own: NDArray[np.float32], others: NDArray[np.float32]
) -> NDArray[np.int64]:
    """How many of a row of others [n, m] are as high as each of its own [n, k], or higher.

    None is below 0, and most have 0, sharing no word.
    """
    counts = np.full(own.shape, others.shape[1])
    for row, mine, all_others in zip(counts, own, others, strict=True):
        found = np.flatnonzero(mine)
        rivals = np.sort(all_others[all_others > 0])
        row[found] = len(rivals) - np.searchsorted(rivals, mine[found])
    return counts
