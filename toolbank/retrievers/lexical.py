"""BM25 of requests against a list of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import bm25s
import numpy as np
from numpy.typing import NDArray


class LexicalIndex:
    """BM25 (Lucene's variant, k1 = 1.5, b = 0.75) over texts.

    Lower case, English stop words left out, no stemming.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._n_texts = len(texts)
        tokens = _tokenize(texts) if texts else None
        self._index = bm25s.BM25() if tokens and tokens.vocab else None
        if self._index is not None:
            self._index.index(tokens, create_empty_token=False, show_progress=False)

    @property
    def is_empty(self) -> bool:
        """Whether none of the texts has a word that is indexed."""
        return self._index is None

    def scores(self, requests: Sequence[str]) -> NDArray[np.float32]:
        """BM25 [n_requests, n_texts] of each text; 0 where it shares no word."""
        if self._index is None or not requests:
            return np.zeros((len(requests), self._n_texts), np.float32)
        tokens = _tokenize(requests, return_ids=False)
        return np.stack([self._score(words) for words in tokens])

    def _score(self, words: list[str]) -> NDArray[np.float32]:
        index: Any = self._index
        scores: NDArray[np.float32] = index.get_scores_from_ids(
            index.get_tokens_ids(words)
        )
        return scores


def _tokenize(texts: Sequence[str], **options: Any) -> Any:
    return bm25s.tokenize(list(texts), stopwords="en", show_progress=False, **options)
