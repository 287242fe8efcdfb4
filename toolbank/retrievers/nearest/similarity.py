"""How similar a request is to the train queries and to the tools: by embedding, or by BM25."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.ranking import cosine_scores
from toolbank.bank.records import Tool
from toolbank.encoders import load_encoder
from toolbank.encoders.base import Encoder, EncoderConfig
from toolbank.retrievers.lexical import LexicalIndex
from toolbank.retrievers.stored import Arrays, Stored, Texts, demand, floats
from toolbank.retrievers.text import all_words, title_and_summary

_QUERIES, _TOOLS = "to_queries", "to_tools"


class SimilarityIndex(Stored, ABC):
    """Train queries and tools' texts that requests are compared with."""

    @abstractmethod
    def build(self, queries: Sequence[str], tools: Sequence[Tool]) -> None:
        """Compare with these, and with nothing else."""

    @abstractmethod
    def extend(self, tools: Sequence[Tool]) -> None:
        """Compare with these tools, too; attributes are set anew."""

    @abstractmethod
    def add_queries(self, queries: Sequence[str]) -> None:
        """Compare with these queries, too; attributes are set anew."""

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Compare with these tools alone; attributes are set anew."""
        self.keep_rows("tools", rows)

    def pack_state(self, folder: Path) -> None:
        """Write what `load_state` needs to compare, without the text of any query."""
        self.save_state(folder)

    @abstractmethod
    def compare(
        self, requests: Sequence[str]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Similarities [n, n_train] to the queries, and [n, n_tools] from 0 to 1 to the tools."""


class EmbeddingIndex(SimilarityIndex):
    """Cosines of embedded texts; a tool's text is its name and summary."""

    queries: NDArray[np.float32]
    descriptions: NDArray[np.float32]

    arrays: ClassVar[Arrays] = {
        "queries": floats("queries", "width"),
        "descriptions": floats("tools", "width"),
    }

    def __init__(self, encoder: EncoderConfig) -> None:
        self._encoder = encoder

    def build(self, queries: Sequence[str], tools: Sequence[Tool]) -> None:
        """Embed them and keep their vectors."""
        encoder = load_encoder(self._encoder)
        self.queries = encoder.encode_queries(queries)
        self.descriptions = _encode_tools(encoder, tools)

    def extend(self, tools: Sequence[Tool]) -> None:
        """Embed tools and keep their vectors.

        Raises:
            InputError: the encoder gives vectors of another length than those saved.
        """
        encoder = load_encoder(self._encoder).of_width(self.queries.shape[1])
        added = _encode_tools(encoder, tools)
        self.descriptions = np.concatenate([self.descriptions, added])

    def add_queries(self, queries: Sequence[str]) -> None:
        """Embed queries and keep their vectors.

        Raises:
            InputError: the encoder gives vectors of another length than those saved.
        """
        encoder = load_encoder(self._encoder).of_width(self.queries.shape[1])
        added = encoder.encode_queries(queries)
        self.queries = np.concatenate([self.queries, added])

    def compare(
        self, requests: Sequence[str]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Cosines to the queries; those to the tools brought to 0 ... 1.

        Raises:
            InputError: the encoder gives vectors of another length than those saved.
        """
        encoder = load_encoder(self._encoder).of_width(self.queries.shape[1])
        vectors = encoder.encode_queries(requests)
        to_tools = (1 + cosine_scores(vectors, self.descriptions)) * np.float32(0.5)
        return cosine_scores(vectors, self.queries), to_tools


class Bm25Index(SimilarityIndex):
    """BM25 of texts; a tool's text is all that is said of it."""

    queries: tuple[str, ...]
    documents: tuple[str, ...]

    texts: ClassVar[Texts] = {"queries": "queries", "documents": "tools"}

    def build(self, queries: Sequence[str], tools: Sequence[Tool]) -> None:
        """Index them."""
        self.queries, self.documents = tuple(queries), ()
        self._to_queries = LexicalIndex.of(self.queries)
        self.extend(tools)

    def extend(self, tools: Sequence[Tool]) -> None:
        """Index tools; how rare a word is counts over all of them, old and new."""
        self.documents += tuple(all_words(tool) for tool in tools)
        self._to_tools = LexicalIndex.of(self.documents)

    def add_queries(self, queries: Sequence[str]) -> None:
        """Index queries; how rare a word is counts over all of them, old and new."""
        self.queries += tuple(queries)
        self._to_queries = LexicalIndex.of(self.queries)

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Index some of the tools; how rare a word is counts over these."""
        super().keep(rows)
        self._to_tools = LexicalIndex.of(self.documents)

    def pack_state(self, folder: Path) -> None:
        """Write the indices, and nothing in place of the texts."""
        wordless = copy(self)
        wordless.queries = ("",) * len(self.queries)
        wordless.documents = ("",) * len(self.documents)
        wordless.save_state(folder)
        self._to_queries.save_state(folder / _QUERIES)
        self._to_tools.save_state(folder / _TOOLS)

    def load_state(self, folder: Path, lengths: dict[str, int]) -> None:
        """Read the texts, and index them where their indices aren't there.

        Raises:
            InputError: a file is missing or damaged, or not of so many queries and tools.
        """
        super().load_state(folder, lengths)
        self._to_queries = LexicalIndex.at(folder / _QUERIES, self.queries)
        self._to_tools = LexicalIndex.at(folder / _TOOLS, self.documents)
        for index, texts in (
            (self._to_queries, self.queries),
            (self._to_tools, self.documents),
        ):
            demand(int(index.n_texts) == len(texts), folder, "indices of other texts")

    def compare(
        self, requests: Sequence[str]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """BM25 b of the queries, and b / (1 + b) of the tools."""
        to_tools = self._to_tools.scores(requests)
        return self._to_queries.scores(requests), to_tools / (1 + to_tools)


def _encode_tools(encoder: Encoder, tools: Sequence[Tool]) -> NDArray[np.float32]:
    return encoder.encode_documents([title_and_summary(tool) for tool in tools])
