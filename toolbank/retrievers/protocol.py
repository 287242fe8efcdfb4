"""What every retriever can do."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from toolbank.bank import Bank

Hits = tuple[NDArray[np.int64], NDArray[np.float32]]


class Retriever(Protocol):
    """Finds the tools that a request needs.

    `name` is what tables and folders call it; `tools` the names of the tools it was fitted on,
    in the order of the indices that `search` gives.
    """

    name: str
    tools: tuple[str, ...]

    def fit(self, bank: Bank) -> None:
        """Learn from the bank's tools and from its queries of split "train", and no others."""
        ...

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Indices and scores of the best min(k, n_tools) tools: two arrays [n_queries, k].

        Scores fall from left to right; ties stand in the order of the tools.
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
