"""Task decomposition: a search for every subtask of a request, by any other retriever."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from toolbank.bank.bank import Bank
from toolbank.bank.ranking import Hits, blocks, join
from toolbank.llm.engines import find_engine
from toolbank.llm.templates import PromptTemplate
from toolbank.retrievers.base import ALONE, FitContext
from toolbank.retrievers.decomposition.config import DecompositionConfig
from toolbank.retrievers.decomposition.prompt import TEMPLATE
from toolbank.retrievers.decomposition.rules import split_request
from toolbank.retrievers.interleave import interleave
from toolbank.retrievers.two_stage import TwoStage


class DecompositionRetriever(TwoStage):
    """The hits of a request's subtasks, interleaved: ProTIP's baseline (arXiv 2312.10332, 4.2)."""

    config: DecompositionConfig
    prompt: PromptTemplate

    def fit(self, bank: Bank, context: FitContext = ALONE) -> None:  # noqa: ARG002
        """Take the first stage; nothing is trained, and no request is split.

        Raises:
            InputError: the engine that is to split requests can't be used.
        """
        if asks := self.config.asks:
            kind = find_engine(asks)
            kind.check(asks)
            kind.check_access(asks)
            self.prompt = PromptTemplate(TEMPLATE)
        self.take_stages(context.fitted)

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
            hits, _ = self.first.search(texts, k)
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
        if not self.config.asks:
            return [split_request(query) for query in queries]
        from toolbank.retrievers.decomposition.model import ask_subtasks

        return ask_subtasks(queries, self.config.asks, self.prompt)

    def save_parts(self, folder: Path) -> None:
        """Write what it is built on, and the prompt."""
        super().save_parts(folder)
        if self.config.asks:
            self.prompt.save(folder / "prompts")

    def load_parts(self, folder: Path) -> None:
        """Read what it is built on, and the prompt.

        Raises:
            InputError: a file is missing or damaged, or of other tools.
        """
        super().load_parts(folder)
        if self.config.asks:
            self.prompt = PromptTemplate.saved(TEMPLATE, folder / "prompts")
