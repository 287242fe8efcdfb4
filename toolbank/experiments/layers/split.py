"""One document a title, one a context, and all that lies between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolbank.system.numbers import unsigned

SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""The chance of a context to become a document of its own."""


@dataclass(frozen=True)
class Documents:
    """Which document each context is in [n_contexts], and how many there are."""

    of_context: NDArray[np.int64]
    count: int

    def join(self, contexts: Sequence[str]) -> list[str]:
        """The texts of the documents: their contexts in order."""
        parts: list[list[str]] = [[] for _ in range(self.count)]
        for place, text in zip(self.of_context, contexts, strict=True):
            parts[place].append(text)
        return ["\n".join(part) for part in parts]

    def pool(
        self, vectors: NDArray[np.float32], weights: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """The weighted means [count, d] of the contexts' vectors [n_contexts, d].

        By their numbers of tokens, means over tokens become the mean over all the document's.
        """
        total = np.zeros((self.count, vectors.shape[1]), np.float64)
        np.add.at(total, self.of_context, vectors * weights[:, None])
        counts = np.bincount(self.of_context, weights, self.count)
        return np.asarray(total / counts[:, None], dtype=np.float32)


def split_titles(titles: Sequence[str], share: float, seed: int) -> Documents:
    """Make each context a document of its own by chance, and one of what a title has left.

    The draws are the same for every share, so that of a greater one no context goes back.
    """
    drawn = np.random.default_rng(unsigned(seed)).random(len(titles))
    places: dict[str | int, int] = {}
    found = [
        places.setdefault(number if draw < share else title, len(places))
        for number, (title, draw) in enumerate(zip(titles, drawn, strict=True))
    ]
    return Documents(np.array(found, np.int64), len(places))
