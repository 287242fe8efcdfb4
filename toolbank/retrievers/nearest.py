"""Nearest neighbours: the tools of the most similar train queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.ranking import Hits, cosine_scores, rank_blocks, top_k
from toolbank.bank.records import Tool
from toolbank.encoders import load_encoder
from toolbank.encoders.base import Encoder
from toolbank.encoders.config import EncoderConfig
from toolbank.retrievers.base import (
    ALONE,
    FitContext,
    Packing,
    Retriever,
    all_words,
)
from toolbank.retrievers.lexical import LexicalIndex
from toolbank.retrievers.relevance import Relevance, train_relevance
from toolbank.retrievers.settings import NearestConfig
from toolbank.retrievers.stored import (
    Arrays,
    Stored,
    Texts,
    floats,
    integers,
    renumber,
)
from toolbank.retrievers.unseen import (
    DescriptionOdds,
    encode_tools,
    spread_rows,
    unseen_without,
)

_QUERIES, _TOOLS = "to_queries", "to_tools"


class EmbeddingIndex(Stored):
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
        self.descriptions = encode_tools(tools, encoder)

    def extend(self, tools: Sequence[Tool]) -> None:
        """Embed tools and keep their vectors.

        Raises:
            InputError: the encoder gives vectors of another length than those saved.
        """
        added = encode_tools(tools, self._sized_encoder)
        self.descriptions = np.concatenate([self.descriptions, added])

    def add_queries(self, queries: Sequence[str]) -> None:
        """Embed queries and keep their vectors.

        Raises:
            InputError: the encoder gives vectors of another length than those saved.
        """
        added = self._sized_encoder.encode_queries(queries)
        self.queries = np.concatenate([self.queries, added])

    def pack_state(self, folder: Path) -> None:
        """Write the vectors; there are no texts in them."""
        self.save_state(folder)

    def compare(
        self, requests: Sequence[str]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Cosines to the queries; those to the tools brought to 0 ... 1.

        Raises:
            InputError: the encoder gives vectors of another length than those saved.
        """
        vectors = self._sized_encoder.encode_queries(requests)
        to_tools = (1 + cosine_scores(vectors, self.descriptions)) * np.float32(0.5)
        return cosine_scores(vectors, self.queries), to_tools

    @property
    def _sized_encoder(self) -> Encoder:
        return load_encoder(self._encoder).of_width(self.queries.shape[1])


class Bm25Index(Stored):
    """BM25 of texts; a tool's text is its name and full description."""

    queries: tuple[str, ...]
    documents: tuple[str, ...]

    texts: ClassVar[Texts] = {"queries": "queries", "documents": "tools"}

    def build(self, queries: Sequence[str], tools: Sequence[Tool]) -> None:
        """Index them."""
        self.queries, self.documents = tuple(queries), ()
        self._to_queries = LexicalIndex.of(self.queries)
        self._to_tools = LexicalIndex.of(())
        self.extend(tools)

    def extend(self, tools: Sequence[Tool]) -> None:
        """Index more tools; word rarity counts over all tools."""
        added, before = tuple(all_words(tool) for tool in tools), len(self.documents)
        self.documents += added
        places = range(before, len(self.documents))
        self._to_tools = self._to_tools.added(added, places)

    def add_queries(self, queries: Sequence[str]) -> None:
        """Index more queries; word rarity counts over all queries."""
        before = len(self.queries)
        self.queries += tuple(queries)
        places = range(before, len(self.queries))
        self._to_queries = self._to_queries.added(queries, places)

    def keep_rows(self, length: str, rows: NDArray[np.int64]) -> None:
        """Keep some of the tools; word rarity counts over these."""
        super().keep_rows(length, rows)
        self._to_tools = self._to_tools.kept(rows)

    def pack_state(self, folder: Path) -> None:
        """Write the indices, with empty texts."""
        wordless = copy(self)
        wordless.queries = ("",) * len(self.queries)
        wordless.documents = ("",) * len(self.documents)
        wordless.save_state(folder)
        self._to_queries.save_state(folder / _QUERIES)
        self._to_tools.save_state(folder / _TOOLS)

    def load_state(self, folder: Path, lengths: dict[str, int]) -> None:
        """Load the texts, and their indices, which are built if missing.

        Raises:
            InputError: a file is missing or damaged, or not of so many queries and tools.
        """
        super().load_state(folder, lengths)
        self._to_queries = LexicalIndex.at(folder / _QUERIES, self.queries)
        self._to_tools = LexicalIndex.at(folder / _TOOLS, self.documents)

    def compare(
        self, requests: Sequence[str]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """BM25 b of the queries, and b / (1 + b) of the tools."""
        to_tools = self._to_tools.scores(requests)
        return self._to_queries.scores(requests), to_tools / (1 + to_tools)


_TIE = 0.01


class NearestRetriever(Retriever):
    """Votes of the most similar train queries, each weighted by its similarity.

    Similarity is the cosine or BM25, by the setting `by`. A tool's score is its share of the votes;
    among nearly equal shares, the similarity to the tool's own text decides. Tools without a vote
    follow by that similarity alone. Tools that no train query uses cannot have a vote: they have
    the score at which others are as likely needed (`toolbank.retrievers.unseen`).

    `uses` [n_train, most] are the positions of each train query's tools, padded with -1.
    """

    config: NearestConfig
    uses: NDArray[np.int64]
    index: EmbeddingIndex | Bm25Index
    described: DescriptionOdds

    arrays: ClassVar[Arrays] = {
        "uses": integers("queries", "most", low=-1, high="tools"),
    }
    parts: ClassVar[Mapping[str, type[Stored]]] = {"described": DescriptionOdds}

    def fit(self, bank: Bank, context: FitContext = ALONE) -> None:  # noqa: ARG002
        """Keep the train queries and the tools' texts, embedded or indexed."""
        relevance = train_relevance(bank)
        self.tools, self.uses = bank.tool_names, relevance.tools
        self.index = self._new_index()
        self.index.build(relevance.queries, bank.tools)
        self.described = DescriptionOdds().fit(bank.tools, relevance, self._encoder)
        rows = spread_rows(len(self.uses), max(len(self.uses), len(self.tools)))
        self.described.fit_scale(
            self._score_without(relevance.queries, rows),
            self.uses[rows],
            unseen_without(self.uses, len(self.tools))(rows),
        )

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Return indices and scores of the best min(k, n_tools) tools: two arrays [n_queries, k]."""
        counts = np.bincount(self.uses[self.uses >= 0], minlength=len(self.tools))
        unseen = (counts == 0)[None]

        def score(rows: slice) -> NDArray[np.float32]:
            scores = self._score(*self.index.compare(queries[rows]))
            return self.described.place(scores, unseen, queries[rows], self._encoder)

        return rank_blocks(score, self.draw_ties(queries), k, len(self.uses))

    def search_train(self, bank: Bank, k: int, context: FitContext = ALONE) -> Hits:  # noqa: ARG002
        """Return hits for every train query, which is never its own neighbour.

        Another query with the same words remains a neighbour. With BM25, word rarity counts over
        all train queries, this one included.
        """
        queries = train_relevance(bank).queries
        unseen = unseen_without(self.uses, len(self.tools))

        def score(block: slice) -> NDArray[np.float32]:
            scores = self._score_without(queries, np.arange(len(queries))[block])
            return self.described.place(
                scores, unseen(block), queries[block], self._encoder
            )

        return rank_blocks(score, self.draw_ties(queries), k, len(self.uses))

    def extend(self, tools: Sequence[Tool]) -> None:
        """Add tools by their texts."""
        self.index = copy(self.index)
        self.index.extend(tools)
        self.described = self.described.extended(tools, self._encoder)

    def take_asks(self, asked: Relevance) -> None:
        """Let asks for added tools vote as train queries do."""
        most = max(self.uses.shape[1], asked.tools.shape[1])
        self.uses = np.concatenate(
            [
                np.pad(uses, ((0, 0), (0, most - uses.shape[1])), constant_values=-1)
                for uses in (self.uses, asked.tools)
            ]
        )
        self.index.add_queries(asked.queries)

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Keep some of the tools; votes for the others are dropped."""
        super().keep(rows)
        self.uses = renumber(self.uses, rows, len(self.tools))
        self.index = copy(self.index)
        self.index.keep_rows("tools", rows)

    def save_parts(self, folder: Path) -> None:
        """Write the index; an encoder is named, not copied."""
        self.index.save_state(folder / "index")

    def pack_parts(self, folder: Path, packing: Packing) -> None:  # noqa: ARG002
        """Write the index without the text of any query."""
        self.index.pack_state(folder / "index")

    def load_parts(self, folder: Path) -> None:
        """Load the index.

        Raises:
            InputError: a file is missing or damaged.
        """
        self.index = self._new_index()
        lengths = {"tools": len(self.tools), "queries": len(self.uses)}
        self.index.load_state(folder / "index", lengths)

    @property
    def _encoder(self) -> Encoder | None:
        """The encoder of requests and tools; None with BM25."""
        return None if self.config.by == "bm25" else load_encoder(self.config.encoder)

    def _new_index(self) -> EmbeddingIndex | Bm25Index:
        if self.config.by == "bm25":
            return Bm25Index()
        return EmbeddingIndex(self.config.encoder)

    def _score_without(
        self, queries: Sequence[str], rows: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Scores [n, n_tools] of these train queries without their own votes."""
        to_queries, to_tools = self.index.compare([queries[row] for row in rows])
        to_queries[np.arange(len(rows)), rows] = -np.inf
        return self._score(to_queries, to_tools)

    def _score(
        self, to_queries: NDArray[np.float32], to_tools: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Scores [n, n_tools]: above 0 with a vote, at most 0 without."""
        votes = self._votes(to_queries)
        return np.where(votes > 0, votes + _TIE * to_tools, to_tools - 1).astype(
            np.float32
        )

    def _votes(self, to_queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Each tool's share [n, n_tools] of its request's votes."""
        n_tools = len(self.tools)
        # The last column takes the padding and is cut off.
        votes = np.zeros((len(to_queries), n_tools + 1), np.float32)
        nearest, similarities = top_k(to_queries, self.config.neighbours)
        weights = np.clip(similarities, 0, None)
        weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-9)
        voted = self.uses[nearest]
        rows = np.arange(len(to_queries))[:, None, None]
        np.add.at(votes, (rows, voted), weights[:, :, None])
        return votes[:, :n_tools]
