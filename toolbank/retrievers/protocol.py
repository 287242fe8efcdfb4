"""What every retriever can do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.records import Tool
from toolbank.ranking.topk import Hits
from toolbank.training.context import TrainingContext

if TYPE_CHECKING:
    from toolbank.retrievers.method import RetrieverConfig


@dataclass(frozen=True)
class FitContext(TrainingContext):
    """What a fit is given beside the bank.

    `fitted` are the retrievers that its configuration needs, by label.
    """

    fitted: Mapping[str, Retriever] = field(default_factory=dict)


ALONE = FitContext()


class Retriever(Protocol):
    """Finds the tools that a request needs.

    `name` is what tables and folders call it; `tools` the names of the tools it was fitted on,
    in the order of the indices that `search` gives.
    """

    name: str
    tools: tuple[str, ...]

    @property
    def config(self) -> RetrieverConfig:
        """The configuration that it was made of."""
        ...

    def fit(self, bank: Bank, context: FitContext = ALONE) -> None:
        """Learn from the bank's tools and from its queries of split "train".

        Those of split "validation" may decide when to stop and which checkpoint is the best;
        others are not looked at.
        """
        ...

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Indices and scores of the best min(k, n_tools) tools: two arrays [n_queries, k].

        Scores fall from left to right; ties stand in the order of the tools.
        """
        ...

    def search_train(self, bank: Bank, k: int, context: FitContext = ALONE) -> Hits:
        """Hits for every train query as of a retriever that has not seen it.

        What a second stage is trained on: in the order of the bank's train queries, two arrays
        [n_train, k]. `bank` is the one that this retriever was fitted on.
        """
        ...

    def add_tools(self, tools: Sequence[Tool]) -> None:
        """Make tools found that were not there in the fit, by their descriptions.

        Their indices follow those of the others. Nothing is trained.

        Raises:
            InputError: one of them is there already.
        """
        ...

    def save(self, folder: Path) -> None:
        """Write all that `load` needs."""
        ...

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote; no bank needed.

        Raises:
            InputError: a file is missing, damaged, or another method's.
        """
        ...


@runtime_checkable
class DenseRetriever(Retriever, Protocol):
    """A retriever by cosines of unit vectors; `vectors` [n_tools, d] are the tools'."""

    vectors: NDArray[np.float32]

    @property
    def unused(self) -> NDArray[np.bool_] | None:
        """Which tools [n_tools] no train query uses; None if that makes no difference here.

        Their `vectors` are of another kind than the others', and so are their cosines:
        `search` brings these to one scale.
        """
        ...

    def embed(self, queries: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors [n, d] of requests, in the space of `vectors`."""
        ...

    def embed_train(self, bank: Bank) -> NDArray[np.float32]:
        """Unit vectors [n_train, d] of the bank's train queries, in the space of `vectors`."""
        ...

    def own_vectors(self, bank: Bank) -> NDArray[np.float32]:
        """Vectors of each train query's own tools, made as if without that query.

        [n_train, most, d], parallel to `train_usage(bank).tools`; zeros where that is padded.
        What a second stage may see of a tool while it is trained on a query that uses it. An
        encoder that was fine-tuned on the query has seen it all the same.
        """
        ...

    def embed_tools(self, tools: Sequence[Tool]) -> NDArray[np.float32]:
        """Unit vectors [n, d] that tools have here by their descriptions alone."""
        ...
