"""Tool2Vec: a tool is the mean of the queries that use it (arXiv 2409.02141, section 4.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.ranking import Hits, cosine_scores, rank_blocks
from toolbank.bank.records import Tool
from toolbank.retrievers.base import Packing
from toolbank.retrievers.dense import DenseRetriever, common_part, subtract_common
from toolbank.retrievers.relevance import Relevance, train_relevance
from toolbank.retrievers.settings import Tool2VecConfig
from toolbank.retrievers.stored import Arrays, Stored, flags, floats
from toolbank.retrievers.unseen import DescriptionOdds, spread_rows, unseen_without

Rows = slice | NDArray[np.int64]


@dataclass(frozen=True)
class Centroids:
    """Unit vectors of train queries [n, d] and of descriptions [n_tools, d].

    `uses` [n, most] are the indices of each query's tools, padded with -1. `weights` [n] and
    `description_weight` are the weights of the queries and of each description in a tool's sum.
    """

    queries: NDArray[np.float32]
    descriptions: NDArray[np.float32]
    uses: NDArray[np.int64]
    weights: NDArray[np.float64]
    description_weight: float

    @cached_property
    def sums(self) -> NDArray[np.float64]:
        """Sums [n_tools, d] of a tool's weighted queries and of its weighted description."""
        query_of, place = np.nonzero(self.uses >= 0)
        sums = self.description_weight * self.descriptions.astype(np.float64)
        weighted = self.weights[:, None] * self.queries
        np.add.at(sums, self.uses[query_of, place], weighted[query_of])
        return sums

    @property
    def vectors(self) -> NDArray[np.float32]:
        """Unit vectors [n_tools, d] of the tools."""
        return unit_vectors(self.sums, self.descriptions)

    def without(self, rows: Rows) -> NDArray[np.float32]:
        """Unit vectors of these queries' tools, each as if its query were not in the sum.

        [n, most, d], parallel to `uses`; zeros where that is padded.
        """
        uses = self.uses[rows]
        weighted = self.weights[rows][:, None] * self.queries[rows]
        own = np.zeros((*uses.shape, self.sums.shape[1]), np.float32)
        for place, tools in enumerate(uses.T):
            used = np.flatnonzero(tools >= 0)
            own[used, place] = unit_vectors(
                self.sums[tools[used]] - weighted[used], self.descriptions[tools[used]]
            )
        return own


def unit_vectors(
    sums: NDArray[np.float64], descriptions: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Unit vectors [n, d] of sums; where nothing is left of one, the description instead."""
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    used = lengths > 1e-9
    vectors = np.where(used, sums / np.where(used, lengths, 1.0), descriptions)
    return vectors.astype(np.float32)


class Tool2VecRetriever(DenseRetriever):
    """Cosine between a request and the mean of the train queries that use a tool.

    The paper's mean is drawn toward the description: v_t = normalised (sum of E(q) over the
    queries of t + w E(description)). A tool that no query uses is its description, and a tool with
    few queries stays near it. With `centre`, the mean of all queries is subtracted from queries,
    and the mean of all descriptions from descriptions, so no tool is near to every request. With
    `training`, the encoder is fine-tuned on the train queries first.

    Cosines with descriptions are lower than those with means of queries. A tool that no query uses
    gets the cosine at which other tools are as likely needed (`toolbank.retrievers.unseen`).

    `common` [d] is subtracted from a request.
    """

    config: Tool2VecConfig
    common: NDArray[np.float32]
    common_to_descriptions: NDArray[np.float32]
    seen: NDArray[np.bool_]
    described: DescriptionOdds

    arrays: ClassVar[Arrays] = {
        **DenseRetriever.arrays,
        "common": floats("width"),
        "common_to_descriptions": floats("width"),
        "seen": flags("tools"),
    }
    parts: ClassVar[Mapping[str, type[Stored]]] = {"described": DescriptionOdds}
    summary = (
        "Tool2Vec (arXiv 2409.02141): cosine between a request and the mean of the requests that "
        "use a tool, drawn toward its description, by a sentence encoder fine-tuned on them."
    )

    @property
    def unseen(self) -> NDArray[np.bool_]:
        """Which tools [n_tools] no train query uses, added ones included."""
        return ~self.seen

    @property
    def query_mean(self) -> NDArray[np.float32]:
        """The mean of the train queries [d], which is subtracted from a request.

        An ask counts once for each sibling that shares it.
        """
        return self.common

    def embed_bank(self, bank: Bank) -> None:
        """Average the train queries of every tool and its description."""
        relevance = train_relevance(bank)
        queries = self.encoder.encode_queries(relevance.queries)
        descriptions = self.encoder.encode_documents(self.read(bank.tools))
        self.common = np.zeros(queries.shape[1], np.float32)
        self.common_to_descriptions = self.common
        if self.config.centre:
            # An ask counts for each sibling that shares it: otherwise tools in dense regions would
            # be near to every request.
            tools = [len(query.tools) for query in bank.asked]
            times = [1] * (len(queries) - len(tools)) + tools
            self.common = common_part(np.repeat(queries, times, axis=0))
            self.common_to_descriptions = common_part(descriptions)
        centroids = Centroids(
            subtract_common(self.common, queries),
            subtract_common(self.common_to_descriptions, descriptions),
            relevance.tools,
            relevance.weights,
            self.config.description_weight,
        )
        self.vectors = centroids.vectors
        self.seen = np.isin(np.arange(len(bank.tools)), relevance.tools)
        self.described = DescriptionOdds().fit(bank.tools, relevance, self.encoder)
        rows = spread_rows(len(queries), len(self.vectors))
        self.described.fit_scale(
            self._compare(centroids, rows),
            centroids.uses[rows],
            unseen_without(centroids.uses, len(self.vectors))(rows),
        )

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Return indices and scores of the best min(k, n_tools) tools: two arrays [n_queries, k].

        Scores are cosines. An unseen tool has the cosine of an equally likely seen tool.
        """
        encoded, ties = self.embed(queries), self.draw_ties(queries)
        if self.index is not None and self.index.reaches(k) and self.seen.all():
            return self.index.search(encoded, self.vectors, ties, k)
        return rank_blocks(
            lambda rows: self._score(encoded[rows], queries[rows]), ties, k
        )

    def pack_parts(self, folder: Path, packing: Packing) -> None:
        """Write an index if it is searched, that is, if queries use every tool."""
        if self.seen.all():
            super().pack_parts(folder, packing)

    def log_odds(self, queries: Sequence[str]) -> NDArray[np.float64]:
        """Return log-odds [n, n_tools] that a request needs a tool."""
        slope, intercept = self.described.scale
        scores = self._score(self.embed(queries), queries).astype(np.float64)
        return np.asarray(slope * scores + intercept)

    def search_held_out(self, bank: Bank, k: int) -> Hits:
        """Return hits for every train query; its tools' vectors are made without it."""
        centroids = self._centroids(bank)
        unseen = unseen_without(centroids.uses, len(self.vectors))
        queries = train_relevance(bank).queries

        def score(rows: slice) -> NDArray[np.float32]:
            cosines = self._compare(centroids, rows)
            return self.described.place(
                cosines, unseen(rows), queries[rows], self.encoder
            )

        return rank_blocks(score, self.draw_ties(queries), k)

    def extend(self, tools: Sequence[Tool]) -> None:
        """Add the vectors of descriptions."""
        super().extend(tools)
        self.seen = np.concatenate([self.seen, np.zeros(len(tools), np.bool_)])
        self.described = self.described.extended(tools, self.encoder)

    def take_asks(self, asked: Relevance) -> None:
        """Average the asks for added tools and their descriptions; `common` does not change."""
        centroids = Centroids(
            self.embed(asked.queries),
            self.vectors,
            asked.tools,
            asked.weights,
            self.config.description_weight,
        )
        known = np.isin(np.arange(len(self.vectors)), asked.tools)
        self.vectors = np.where(known[:, None], centroids.vectors, self.vectors)
        self.seen = self.seen | known

    def embed(self, queries: Sequence[str]) -> NDArray[np.float32]:
        """Embed requests [n, d], with `common` subtracted."""
        return subtract_common(self.common, super().embed(queries))

    def embed_tools(self, tools: Sequence[Tool]) -> NDArray[np.float32]:
        """Embed descriptions [n, d], with their mean subtracted."""
        return subtract_common(self.common_to_descriptions, super().embed_tools(tools))

    def own_vectors(self, bank: Bank) -> NDArray[np.float32]:
        """Return vectors [n_train, most, d] of each train query's own tools; zeros for padding.

        For a mean v over n queries this is (n v - q) / (n - 1), and likewise with weights and a
        description in the sum. It equals a new fit without the query, except that `common` still
        contains it (one part in n_train + 20), and that a fine-tuned encoder has seen it.
        """
        return self._centroids(bank).without(slice(None))

    def _score(
        self, encoded: NDArray[np.float32], queries: Sequence[str]
    ) -> NDArray[np.float32]:
        """Scores [n, n_tools] of requests and their vectors [n, d]."""
        cosines = cosine_scores(encoded, self.vectors)
        return self.described.place(cosines, self.unseen[None], queries, self.encoder)

    def _compare(self, centroids: Centroids, queries: Rows) -> NDArray[np.float32]:
        """Cosines [n, n_tools] of train queries; their own tools' vectors are made without them."""
        vectors, uses = centroids.queries[queries], centroids.uses[queries]
        cosines = cosine_scores(vectors, self.vectors)
        rows, places = np.nonzero(uses >= 0)
        own = centroids.without(queries)[rows, places]
        products = np.einsum("nd,nd->n", vectors[rows], own)
        cosines[rows, uses[rows, places]] = np.round(products, 6)
        return cosines

    def _centroids(self, bank: Bank) -> Centroids:
        """The sums behind `vectors`, from the bank that it was fitted on."""
        relevance = train_relevance(bank)
        return Centroids(
            self.embed(relevance.queries),
            self.embed_tools(bank.tools),
            relevance.tools,
            relevance.weights,
            self.config.description_weight,
        )
