"""Retrievers that build on the hits or vectors of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.ranking import Hits, by_rank
from toolbank.bank.records import Tool
from toolbank.retrievers import load_retriever
from toolbank.retrievers.base import Packing, Retriever
from toolbank.retrievers.dense import DenseRetriever
from toolbank.retrievers.kind import TwoStageConfig
from toolbank.retrievers.relevance import Relevance
from toolbank.retrievers.stored import demand
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


def interleave(
    lists: NDArray[np.int64], lengths: NDArray[np.int64], n_tools: int, k: int
) -> Hits:
    """Interleave each request's lists of hits, as ProTIP is evaluated (arXiv 2312.10332, 4.3).

    `lists` [n, most, depth] are indices of tools, best first and none twice in a list; the
    first `lengths` [n] lists of each request count, at least one. Its depth is at least
    min(k, n_tools); a list with fewer hits is filled up with -1.

    Returns:
        Indices and scores, [n, min(k, n_tools)]; the score of rank r, from 1, is 1 / r. Where
        the lists have fewer tools, the rest is -1 and -inf.
    """
    n, most, depth = lists.shape
    k = min(k, n_tools)
    never = most * depth
    # The last column takes the padding and is cut off.
    places = np.full((n, n_tools + 1), never, dtype=np.int64)
    for number in range(most):
        hits = lists[:, number]
        place = np.where(
            (number < lengths)[:, None], np.arange(depth) * most + number, never
        )
        known = np.take_along_axis(places, hits, axis=1)
        np.put_along_axis(places, hits, np.minimum(known, place), axis=1)
    places = places[:, :n_tools]
    indices = np.argsort(places, axis=1, kind="stable")[:, :k]
    found = np.take_along_axis(places, indices, axis=1) < never
    return by_rank(np.where(found, indices, -1))
