"""Task decomposition: a search for every subtask of a request, by any other retriever."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np

from toolbank.bank.bank import Bank
from toolbank.bank.records import Tool
from toolbank.llm.engines import find_engine
from toolbank.ranking.topk import Hits, blocks, join
from toolbank.retrievers import load_retriever
from toolbank.retrievers.crossfit import cross_fit
from toolbank.retrievers.decomposition.config import DecompositionConfig
from toolbank.retrievers.decomposition.rules import split_request
from toolbank.retrievers.interleave import interleave
from toolbank.retrievers.protocol import ALONE, FitContext, Retriever
from toolbank.retrievers.store import demand, load_head, save_head
from toolbank.system.errors import InputError

_FIRST = "first"


class DecompositionRetriever:
    """The hits of a request's subtasks, interleaved: ProTIP's baseline (arXiv 2312.10332, 4.2)."""

    def __init__(self, config: DecompositionConfig) -> None:
        self.name: str = config.label
        self.config = config
        self.tools: tuple[str, ...] = ()
        self._first: Retriever | None = None

    @property
    def built_on(self) -> Mapping[str, Retriever]:
        """Its first stage, by its label."""
        return {self.config.first_stage: self._fitted}

    def fit(self, bank: Bank, context: FitContext = ALONE) -> None:  # noqa: ARG002
        """Take the first stage; nothing is trained, and no request is split.

        Raises:
            InputError: the engine that is to split requests can't be used.
        """
        if self.config.decompose != "rules":
            kind = find_engine(self.config.decompose)
            kind.check(self.config.decompose)
            kind.check_access(self.config.decompose)
        self._take(context.fitted[self.config.first_stage])

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Indices and scores of the best min(k, n_tools) tools: two arrays [n_queries, k].

        A score is the reciprocal of the rank.

        Raises:
            ToolbankError: the language model that splits the requests gave no answer.
        """
        n_tools = len(self.tools)
        k = min(k, n_tools)
        split = self.split(queries)
        most = max(map(len, split), default=1)
        parts = []
        for block in blocks(len(queries), n_tools + k * most):
            rows = split[block]
            texts = [text for row in rows for text in row]
            hits, _ = self._fitted.search(texts, k)
            lengths = np.array([len(row) for row in rows])
            lists = np.zeros((len(rows), most, k), np.int64)
            lists[np.arange(most) < lengths[:, None]] = hits
            parts.append(interleave(lists, lengths, n_tools, k))
        return join(parts, k)

    def split(self, queries: Sequence[str]) -> list[list[str]]:
        """The subtasks of each request, at least one.

        Raises:
            ToolbankError: the language model that splits the requests gave no answer.
        """
        if self.config.decompose == "rules":
            return [split_request(query) for query in queries]
        from toolbank.retrievers.decomposition.model import ask_subtasks

        return ask_subtasks(queries, self.config.decompose)

    def search_train(self, bank: Bank, k: int, context: FitContext = ALONE) -> Hits:
        """Hits for every train query by a first stage that was fitted without it."""
        return cross_fit(self.config, bank, k, replace(context, fitted=self.built_on))

    def add_tools(self, tools: Sequence[Tool]) -> None:
        """Add tools to the first stage.

        Raises:
            InputError: one of them is there already.
        """
        self._fitted.add_tools(tools)
        self.tools = self._fitted.tools

    def save(self, folder: Path) -> None:
        """Write all that `load` needs; the first stage into a folder of its own."""
        save_head(folder, self.config, self.tools)
        self._fitted.save(folder / _FIRST)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote; no bank needed.

        Raises:
            InputError: a file is missing, damaged, or another method's.
        """
        config, tools = load_head(folder, DecompositionConfig)
        retriever = cls(config)
        retriever._take(load_retriever(folder / _FIRST))
        demand(tools == retriever.tools, folder / _FIRST, "not of the tools here")
        return retriever

    @property
    def _fitted(self) -> Retriever:
        if self._first is None:
            raise InputError(f"{self.name}: not fitted yet.")
        return self._first

    def _take(self, first: Retriever) -> None:
        self._first = first
        self.tools = first.tools
