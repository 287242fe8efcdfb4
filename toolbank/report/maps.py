"""Requests and tools as dots of a plane."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.report.vectors import Space, Vectors
from toolbank.system.numbers import unsigned

_MOST_TOOLS = 1000
_PERPLEXITY = 30
_FEWEST = 4
_SAME = 1e-6


@dataclass(frozen=True)
class Point:
    """A dot of the map, with both coordinates from 0 to 1; `group` decides its colour."""

    x: float
    y: float
    title: str
    group: str

    @property
    def at(self) -> tuple[float, float]:
        """Both coordinates."""
        return self.x, self.y


def lay_out(space: Space, bank: Bank, seed: int) -> dict[str, list[Point]]:
    """Points of queries, of tools by their vectors, and of tools by their descriptions.

    By t-SNE of all that is drawn (van der Maaten and Hinton 2008), as in arXiv 2409.02141. What a
    method takes out of requests is put back, so that all kinds stand in one space. A tool's group
    is its module. Empty where there is too little to draw.
    """
    positions = _evenly(len(bank.tools), _MOST_TOOLS)
    tools = [bank.tools[i] for i in positions]
    parts = {"queries": space.query_vectors}
    for name, method in space.methods.items():
        parts[name] = method.bring_out()[positions]
    plane = embed(np.concatenate(list(parts.values())), seed)
    if plane is None:
        return {}
    points: dict[str, list[Point]] = {}
    start = 0
    for name, vectors in parts.items():
        rows = plane[start : start + len(vectors)].tolist()
        start += len(vectors)
        if name == "queries":
            told = [(query.query, "") for query in space.queries]
        else:
            told = [
                (f"{tool.name}: {tool.summary}", tool.name.rpartition(".")[0])
                for tool in tools
            ]
        points[name] = [
            Point(x, y, *about) for (x, y), about in zip(rows, told, strict=True)
        ]
    return points


def embed(vectors: Vectors, seed: int) -> NDArray[np.float64] | None:
    """Coordinates [n, 2] by t-SNE, scaled to 0 ... 1, the same for the same vectors and seed.

    None of fewer than four vectors, and of vectors that are all the same. It begins with the
    first two principal components.
    """
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    # Its first step is scaled by their spread; without any, it ends the process.
    if len(vectors) < _FEWEST or np.ptp(vectors, axis=0).max() < _SAME:
        return None
    # Sums of several threads are added up in no fixed order.
    with threadpool_limits(1):
        plane = TSNE(
            perplexity=min(_PERPLEXITY, (len(vectors) - 1) / 3),
            init="pca",
            random_state=unsigned(seed, bits=32),
        ).fit_transform(vectors)
    plane = plane.astype(np.float64)
    low, high = plane.min(axis=0), plane.max(axis=0)
    scaled: NDArray[np.float64] = (plane - low) / np.where(high > low, high - low, 1.0)
    return scaled


def _evenly(n: int, most: int) -> list[int]:
    return sorted({round(i) for i in np.linspace(0, n - 1, min(n, most))}) if n else []
