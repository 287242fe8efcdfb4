"""BM25 over names and descriptions, and over the requests that use a tool."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.ranking import Hits, rank_blocks
from toolbank.bank.records import Tool
from toolbank.retrievers.base import ALONE, FitContext, Packing, Retriever, all_words
from toolbank.retrievers.lexical import LexicalIndex
from toolbank.retrievers.relevance import Relevance, train_relevance
from toolbank.retrievers.settings import Bm25Config
from toolbank.retrievers.stored import Texts
from toolbank.system.errors import InputError


class Bm25Retriever(Retriever):
    """BM25 of a request against the tools' texts (`LexicalIndex` has the variant).

    A tool's text is its name, the words in its name, its summary and its description; with
    `requests`, the train queries that use it follow. Texts are saved, and indexed when they are
    loaded: one second for some 20,000 tools.
    """

    config: Bm25Config
    documents: tuple[str, ...]
    index: LexicalIndex

    texts: ClassVar[Texts] = {"documents": "tools"}

    def fit(self, bank: Bank, context: FitContext = ALONE) -> None:  # noqa: ARG002
        """Index the tools; queries are not used without `requests`.

        Raises:
            InputError: no tool has a word in it.
        """
        self.tools, self.documents = bank.tool_names, ()
        self.index = LexicalIndex.of(())
        self.extend(bank.tools)
        self.take_asks(train_relevance(bank))
        if self.index.is_empty:
            raise InputError(
                f"retrievers: none of the tools has a word that {self.name} could index. "
                "Describe the tools in words, or remove this retriever."
            )

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Indices and BM25 of the best min(k, n_tools) tools: two arrays [n_queries, k].

        A tool that shares no word with the request, and so scores 0, is no hit.
        """
        indices, scores = rank_blocks(
            lambda rows: self.index.scores(queries[rows]), self.draw_ties(queries), k
        )
        found = scores > 0
        return np.where(found, indices, -1), np.where(
            found, scores, np.float32(-np.inf)
        )

    def search_train(self, bank: Bank, k: int, context: FitContext = ALONE) -> Hits:
        """Hits for every train query; without `requests` it has seen none of them."""
        if self.config.requests:
            return super().search_train(bank, k, context)
        return self.search([query.query for query in bank.train_queries], k)

    def extend(self, tools: Sequence[Tool]) -> None:
        """Index more tools; word rarity counts over all tools."""
        added, before = tuple(all_words(tool) for tool in tools), len(self.documents)
        self.documents += added
        self.index = self.index.added(added, range(before, len(self.documents)))

    def take_asks(self, asked: Relevance) -> None:
        """Index requests with the texts of the tools that they need, if so configured."""
        if not self.config.requests:
            return
        texts = [[document] for document in self.documents]
        rows, columns = np.nonzero(asked.tools >= 0)
        places = asked.tools[rows, columns].tolist()
        queries = [asked.queries[row] for row in rows]
        for place, query in zip(places, queries, strict=True):
            texts[place].append(query)
        self.documents = tuple("\n".join(text) for text in texts)
        self.index = self.index.added(queries, places)

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Keep some of the tools; word rarity counts over these."""
        super().keep(rows)
        self.index = self.index.kept(rows)

    def pack(self, folder: Path, packing: Packing) -> None:
        """Pack the index without the texts, which may contain requests."""
        wordless = copy(self)
        wordless.documents = ("",) * len(self.documents)
        super(Bm25Retriever, wordless).pack(folder, packing)

    def pack_parts(self, folder: Path, packing: Packing) -> None:  # noqa: ARG002
        """Write the index, so a search does not have to build it."""
        self.index.save_state(folder / "index")

    def load_parts(self, folder: Path) -> None:
        """Load the index, or build it.

        Raises:
            InputError: it is damaged.
        """
        self.index = LexicalIndex.at(folder / "index", self.documents)
