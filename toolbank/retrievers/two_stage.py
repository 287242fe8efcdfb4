"""Retrievers that build on the hits or vectors of others; score fusion is one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.ranking import Hits, rank_blocks
from toolbank.bank.records import Tool
from toolbank.retrievers import load_retriever
from toolbank.retrievers.base import ALONE, FitContext, Packing, Retriever
from toolbank.retrievers.dense import DenseRetriever
from toolbank.retrievers.kind import TwoStageConfig
from toolbank.retrievers.relevance import Relevance
from toolbank.retrievers.settings import FusionConfig
from toolbank.retrievers.stored import demand
from toolbank.retrievers.unseen import mark_uses
from toolbank.system.errors import InputError

if TYPE_CHECKING:
    from toolbank.llm.templates import PromptTemplate


class TwoStage(Retriever):
    """A retriever that builds on the retrievers that its configuration needs.

    `stages` holds these by label; each is saved in its own folder. A fit begins with
    `take_stages`. `prompt` is the template of a method that asks a language model in a search.
    """

    config: TwoStageConfig
    stages: Mapping[str, Retriever]
    prompt: PromptTemplate

    @property
    def built_on(self) -> Mapping[str, Retriever]:
        """The retrievers that it builds on, by their labels."""
        return self.stages

    @property
    def first(self) -> Retriever:
        """The first stage."""
        return self.stages[self.config.first_stage]

    @property
    def dense(self) -> DenseRetriever:
        """The retriever whose vectors it reads."""
        retriever = self.stages[self.config.needs_vectors]
        assert isinstance(retriever, DenseRetriever)
        return retriever

    def take_stages(self, fitted: Mapping[str, Retriever]) -> None:
        """Set `stages` and `tools`.

        Raises:
            InputError: the stage that must have tool vectors has none.
        """
        self.stages = {label: fitted[label] for label in self.config.needs}
        self.tools = self.first.tools
        vectors = self.config.needs_vectors
        if vectors and not isinstance(self.stages[vectors], DenseRetriever):
            raise InputError(
                f"retrievers: {self.name} needs vectors of tools, and {vectors} "
                f"({self.stages[vectors].config.type}) has none. Name a retriever of type "
                "tool2vec or descriptions."
            )

    def extend(self, tools: Sequence[Tool]) -> None:
        """Add tools to the stages."""
        self.stages = {
            label: stage.add_tools(tools) for label, stage in self.stages.items()
        }

    def take_asks(self, asked: Relevance) -> None:
        """Give asks to the stages, which `extend` has copied."""
        for stage in self.stages.values():
            stage.take_asks(asked)

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Keep some of the tools in the stages."""
        super().keep(rows)
        places = rows.tolist()
        self.stages = {
            label: stage.pick_tools(places) for label, stage in self.stages.items()
        }

    def save_parts(self, folder: Path) -> None:
        """Write each stage to its own folder, and the prompt."""
        for label, stage in self.stages.items():
            stage.save(_folder(folder, label))
        if self.config.templates:
            self.prompt.save(folder / "prompts")

    def pack_parts(self, folder: Path, packing: Packing) -> None:
        """Pack each stage into its own folder."""
        for label, stage in self.stages.items():
            stage.pack(_folder(folder, label), packing)

    def load_parts(self, folder: Path) -> None:
        """Load the stages and the prompt.

        Raises:
            InputError: a file is missing or damaged, or of other tools.
        """
        tools = self.tools
        self.take_stages(
            {
                label: load_retriever(_folder(folder, label))
                for label in self.config.needs
            }
        )
        for label, stage in self.stages.items():
            same = stage.tools == tools
            demand(same, _folder(folder, label), "not of the tools here")
        for name in self.config.templates:
            from toolbank.llm.templates import PromptTemplate

            self.prompt = PromptTemplate.saved(name, folder / "prompts")


def _folder(folder: Path, label: str) -> Path:
    return folder / "stages" / label


class FusionRetriever(TwoStage):
    """The mean of several retrievers' scores, each standardised over its first hits.

    A convex combination of normalised scores (hybrid search, arXiv 2210.11934), with the z-score as
    norm. A tool that is not among a retriever's first hits has the score of the last of them.
    """

    config: FusionConfig

    def fit(self, bank: Bank, context: FitContext = ALONE) -> None:  # noqa: ARG002
        """Take the retrievers; nothing is trained."""
        self.take_stages(context.fitted)

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Return indices and scores of the best min(k, n_tools) tools: two arrays [n_queries, k].

        A tool that is not among a retriever's first `candidates` hits comes last; a tool that is
        not among the top k of any retriever is no hit.
        """
        n_tools, first = len(self.tools), self.config.candidates
        hits = [s.search(queries, max(first, k)) for s in self.stages.values()]

        def score(rows: slice) -> NDArray[np.float32]:
            parts = [
                standardise((i[rows, :first], s[rows, :first]), n_tools)
                for i, s in hits
            ]
            found = np.max([mark_uses(i[rows], n_tools) for i, _ in hits], axis=0)
            means = np.round(np.mean(parts, axis=0), 6).astype(np.float32)
            return np.where(found, means, np.float32(-np.inf))

        indices, scores = rank_blocks(score, self.draw_ties(queries), k)
        return np.where(np.isinf(scores), -1, indices), scores


def standardise(hits: Hits, n_tools: int) -> NDArray[np.float64]:
    """Scores [n, n_tools] in standard deviations above the mean of the request's hits.

    A tool that is no hit has the score of the last hit. If there are fewer hits than requested,
    the other tools count as hits with score 0, or the score of the last hit if that is lower.
    """
    indices, scores = hits
    real, width = indices >= 0, max(indices.shape[1], 1)
    floor = np.where(real, scores, 0).min(axis=1, initial=0, keepdims=True)
    spread = np.where(real, scores, floor).astype(np.float64)
    spread -= spread.sum(axis=1, keepdims=True) / width
    spread /= np.sqrt((spread**2).sum(axis=1, keepdims=True) / width + 1e-12)
    last = spread.min(axis=1, initial=0, keepdims=True)
    # The last column takes the padding and is cut off.
    every = np.repeat(last, n_tools + 1, axis=1)
    np.put_along_axis(every, indices, spread, axis=1)
    return every[:, :n_tools]
