"""How like a request is to the train queries and to the tools: by embedding, or by BM25."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.records import Tool
from toolbank.encoders.config import EncoderConfig
from toolbank.encoders.sentence import load_encoder
from toolbank.ranking.topk import cosine_scores
from toolbank.retrievers.lexical import LexicalIndex
from toolbank.retrievers.nearest.config import NearestConfig
from toolbank.retrievers.store import (
    VECTORS,
    demand,
    demand_width,
    load_arrays,
    load_texts,
    save_texts,
)
from toolbank.retrievers.text import all_words, title_and_summary

_QUERIES, _TOOLS = "queries", "texts"


class Likeness(Protocol):
    """Train queries and tools' texts that requests are compared with."""

    def add_queries(self, queries: Sequence[str]) -> None:
        """Compare with these queries, too."""
        ...

    def add_tools(self, tools: Sequence[Tool]) -> None:
        """Compare with these tools, too."""
        ...

    def compare(
        self, requests: Sequence[str]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Similarities [n, n_train] to the queries, and [n, n_tools] from 0 to 1 to the tools."""
        ...

    def save(self, folder: Path) -> Mapping[str, NDArray[np.generic]]:
        """Write what is not an array; give the arrays."""
        ...


class EmbeddedLikeness:
    """Cosines of embedded texts; a tool's text is its name and summary."""

    def __init__(self, encoder: EncoderConfig) -> None:
        self._encoder = encoder
        self.queries: NDArray[np.float32] | None = None
        self.tools: NDArray[np.float32] | None = None

    def add_queries(self, queries: Sequence[str]) -> None:
        """Embed queries and keep their vectors."""
        vectors = load_encoder(self._encoder).encode_queries(queries)
        self.queries = self._join(self.queries, vectors)

    def add_tools(self, tools: Sequence[Tool]) -> None:
        """Embed tools and keep their vectors.

        Raises:
            InputError: the encoder gives vectors of another length than those saved.
        """
        texts = [title_and_summary(tool) for tool in tools]
        vectors = load_encoder(self._encoder).encode_documents(texts)
        self.tools = self._join(self.tools, vectors)

    def compare(
        self, requests: Sequence[str]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Cosines to the queries; those to the tools brought to 0 ... 1.

        Raises:
            InputError: the encoder gives vectors of another length than those saved.
        """
        assert self.queries is not None
        assert self.tools is not None
        vectors = load_encoder(self._encoder).encode_queries(requests)
        demand_width(vectors.shape[1], self.queries, self._encoder.model)
        to_tools = (1 + cosine_scores(vectors, self.tools)) * np.float32(0.5)
        return cosine_scores(vectors, self.queries), to_tools

    def save(self, folder: Path) -> Mapping[str, NDArray[np.generic]]:  # noqa: ARG002
        """The vectors of the queries and of the tools."""
        assert self.queries is not None
        assert self.tools is not None
        return {"queries": self.queries, "descriptions": self.tools}

    def _join(
        self, there: NDArray[np.float32] | None, new: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        if there is None:
            return new
        demand_width(new.shape[1], there, self._encoder.model)
        return np.concatenate([there, new])


class LexicalLikeness:
    """BM25 of texts; a tool's text is all that is said of it."""

    def __init__(self) -> None:
        self.queries: tuple[str, ...] = ()
        self.tools: tuple[str, ...] = ()
        self._to_queries = LexicalIndex(())
        self._to_tools = LexicalIndex(())

    def add_queries(self, queries: Sequence[str]) -> None:
        """Index queries."""
        self.queries += tuple(queries)
        self._to_queries = LexicalIndex(self.queries)

    def add_tools(self, tools: Sequence[Tool]) -> None:
        """Index tools."""
        self.add_texts([all_words(tool) for tool in tools])

    def add_texts(self, texts: Sequence[str]) -> None:
        """Index tools by texts that were made of them before."""
        self.tools += tuple(texts)
        self._to_tools = LexicalIndex(self.tools)

    def compare(
        self, requests: Sequence[str]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """BM25 b of the queries, and b / (1 + b) of the tools."""
        to_tools = self._to_tools.scores(requests)
        return self._to_queries.scores(requests), to_tools / (1 + to_tools)

    def save(self, folder: Path) -> Mapping[str, NDArray[np.generic]]:
        """Write the texts; there are no arrays."""
        save_texts(folder, _QUERIES, self.queries)
        save_texts(folder, _TOOLS, self.tools)
        return {}


def create_likeness(config: NearestConfig) -> Likeness:
    """One of the configured kind, with nothing to compare with yet."""
    if config.by == "bm25":
        return LexicalLikeness()
    return EmbeddedLikeness(config.encoder)


def load_likeness(
    config: NearestConfig, folder: Path, n_queries: int, n_tools: int
) -> Likeness:
    """Read what `save` wrote.

    Raises:
        InputError: a file is missing or damaged, or not of so many queries and tools.
    """
    if config.by == "bm25":
        lexical = LexicalLikeness()
        lexical.add_queries(load_texts(folder, _QUERIES, n_queries))
        lexical.add_texts(load_texts(folder, _TOOLS, n_tools))
        return lexical
    shapes = {"queries": (n_queries, None), "descriptions": (n_tools, None)}
    queries, tools = (
        array.astype(np.float32, copy=False)
        for array in load_arrays(folder, shapes).values()
    )
    demand(
        queries.shape[1] == tools.shape[1],
        folder / VECTORS,
        "queries and descriptions differ in length",
    )
    embedded = EmbeddedLikeness(config.encoder)
    embedded.queries, embedded.tools = queries, tools
    return embedded
