"""BM25 over names and descriptions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import bm25s
import numpy as np
from numpy.typing import NDArray

from toolbank.bank import Bank
from toolbank.errors import InputError
from toolbank.files import read_json, write_json
from toolbank.retrievers.config import Bm25Config
from toolbank.retrievers.protocol import ALONE, FitContext, Hits
from toolbank.retrievers.ranking import blocks, join, top_k
from toolbank.retrievers.store import (
    VECTORS,
    demand,
    load_arrays,
    load_head,
    save_arrays,
    save_head,
    within,
)
from toolbank.retrievers.text import all_words

_VOCABULARY = "vocabulary.json"
_ARRAYS = ("data", "indices", "indptr")


class Bm25Retriever:
    """BM25 (Lucene's variant, k1 = 1.5, b = 0.75) of a request against the tools' texts.

    A tool's text is its name, the words in its name, its summary and its description; lower
    case, English stop words left out, no stemming.
    """

    def __init__(self, config: Bm25Config) -> None:
        self.name: str = config.label
        self.config = config
        self.tools: tuple[str, ...] = ()
        self._index = bm25s.BM25()

    def fit(self, bank: Bank, context: FitContext = ALONE) -> None:  # noqa: ARG002
        """Index the tools; queries are not used.

        Raises:
            InputError: no tool has a word in it.
        """
        tokens = _tokenize([all_words(tool) for tool in bank.tools])
        if not tokens.vocab:
            raise InputError(
                "bm25: none of the tools has a word that could be indexed."
            )
        self.tools = tuple(tool.name for tool in bank.tools)
        self._index.index(tokens, create_empty_token=False, show_progress=False)

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Indices and scores of the best min(k, n_tools) tools: two arrays [n_queries, k]."""
        n = len(self.tools)
        tokens = _tokenize(queries, return_ids=False) if queries else []
        parts = []
        for block in blocks(len(queries), n):
            scores = np.stack([self._score(words) for words in tokens[block]])
            parts.append(top_k(scores, k))
        return join(parts, min(k, n))

    def save(self, folder: Path) -> None:
        """Write all that `load` needs."""
        save_head(folder, self.config, self.tools)
        arrays = {name: self._index.scores[name] for name in _ARRAYS}
        arrays["num_docs"] = np.array([len(self.tools)])
        save_arrays(folder, arrays)
        write_json(folder / _VOCABULARY, self._index.vocab_dict)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote; no bank needed.

        Raises:
            InputError: a file is missing, damaged, or another method's.
        """
        config, tools = load_head(folder, Bm25Config)
        retriever = cls(config)
        retriever.tools = tools
        arrays = load_arrays(folder, dict.fromkeys((*_ARRAYS, "num_docs"), (None,)))
        vectors = folder / VECTORS
        n_documents = arrays.pop("num_docs").tolist()
        demand(n_documents == [len(tools)], vectors, "not of the tools in tools.json")
        _check_index(vectors, len(tools), **arrays)
        vocabulary = read_json(folder / _VOCABULARY)
        demand(
            _is_vocabulary(vocabulary, len(arrays["indptr"]) - 1),
            folder / _VOCABULARY,
            "not the words of the index",
        )
        retriever._index.scores = {**arrays, "num_docs": len(tools)}
        retriever._index.vocab_dict = vocabulary
        retriever._index.nonoccurrence_array = None
        return retriever

    def _score(self, words: list[str]) -> NDArray[np.float32]:
        known = self._index.get_tokens_ids(words)
        scores: NDArray[np.float32] = self._index.get_scores_from_ids(known)
        return scores


def _check_index(
    path: Path,
    n_tools: int,
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
) -> None:
    """Demand a sparse matrix of words and tools; `indptr` says where each word begins."""
    demand(len(data) == len(indices), path, "data and indices differ in length")
    demand(within(indices, 0, n_tools), path, "indices of tools that are not there")
    steps_up = len(indptr) > 0 and bool((indptr[1:] >= indptr[:-1]).all())
    demand(
        steps_up and within(indptr, 0, len(data) + 1), path, "indptr is not of the data"
    )


def _is_vocabulary(content: Any, n_words: int) -> bool:
    return isinstance(content, dict) and all(
        type(number) is int and 0 <= number < n_words for number in content.values()
    )


def _tokenize(texts: Sequence[str], **options: Any) -> Any:
    return bm25s.tokenize(list(texts), stopwords="en", show_progress=False, **options)
