"""BM25 over names and descriptions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from toolbank.bank.bank import Bank
from toolbank.bank.records import Tool
from toolbank.ranking.topk import Hits, blocks, join, top_k
from toolbank.retrievers.bm25.config import Bm25Config
from toolbank.retrievers.growth import join_names
from toolbank.retrievers.lexical import LexicalIndex
from toolbank.retrievers.protocol import ALONE, FitContext
from toolbank.retrievers.store import load_head, load_texts, save_head, save_texts
from toolbank.retrievers.text import all_words
from toolbank.system.errors import InputError


class Bm25Retriever:
    """BM25 of a request against the tools' texts (`LexicalIndex` has the variant).

    A tool's text is its name, the words in its name, its summary and its description. The
    texts are saved and indexed when they are read: a second for some 20,000 tools.
    """

    def __init__(self, config: Bm25Config) -> None:
        self.name: str = config.label
        self.config = config
        self.tools: tuple[str, ...] = ()
        self._texts: tuple[str, ...] = ()
        self._index = LexicalIndex(())

    def fit(self, bank: Bank, context: FitContext = ALONE) -> None:  # noqa: ARG002
        """Index the tools; queries are not used.

        Raises:
            InputError: no tool has a word in it.
        """
        texts = tuple(all_words(tool) for tool in bank.tools)
        index = LexicalIndex(texts)
        if index.is_empty:
            raise InputError(
                "bm25: none of the tools has a word that could be indexed."
            )
        self.tools = tuple(tool.name for tool in bank.tools)
        self._texts, self._index = texts, index

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Indices and scores of the best min(k, n_tools) tools: two arrays [n_queries, k]."""
        n = len(self.tools)
        parts = [
            top_k(self._index.scores(queries[block]), k)
            for block in blocks(len(queries), n)
        ]
        return join(parts, min(k, n))

    def search_train(self, bank: Bank, k: int, context: FitContext = ALONE) -> Hits:  # noqa: ARG002
        """Hits for every train query; it has seen none, since no query is used."""
        return self.search([query.query for query in bank.split("train")], k)

    def add_tools(self, tools: Sequence[Tool]) -> None:
        """Index more tools; how rare a word is counts over all of them, old and new.

        Raises:
            InputError: one of them is there already.
        """
        self.tools = join_names(self.tools, tools)
        self._texts += tuple(all_words(tool) for tool in tools)
        self._index = LexicalIndex(self._texts)

    def save(self, folder: Path) -> None:
        """Write all that `load` needs: the tools' texts."""
        save_head(folder, self.config, self.tools)
        save_texts(folder, "texts", self._texts)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote; no bank needed.

        Raises:
            InputError: a file is missing, damaged, or another method's.
        """
        config, tools = load_head(folder, Bm25Config)
        retriever = cls(config)
        retriever.tools = tools
        retriever._texts = load_texts(folder, "texts", len(tools))
        retriever._index = LexicalIndex(retriever._texts)
        return retriever
