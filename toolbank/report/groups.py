"""How diverse the requests are: groups of those that ask for the like."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from toolbank.encoders.clusters import cluster
from toolbank.report.numbers import Bar
from toolbank.report.vectors import Space

_GROUPS = 12
_FEWEST = 2 * _GROUPS


@dataclass(frozen=True)
class Groups:
    """The groups of n requests, the largest first, each under the request nearest to its middle.

    `effective` is how many groups of one size would be as diverse: the exponential of the entropy
    of their shares. `cosine` is the mean over all pairs of requests.
    """

    n: int
    bars: tuple[Bar, ...]
    effective: float
    cosine: float


def group_requests(space: Space, seed: int) -> Groups | None:
    """Twelve groups of the requests by k-means of their vectors; None of fewer than 24."""
    vectors, n = space.query_vectors, len(space.queries)
    if n < _FEWEST:
        return None
    of = cluster(vectors, _GROUPS, seed)
    bars = []
    for group in range(of.max() + 1):
        places = np.flatnonzero(of == group)
        inside = vectors[places]
        nearest = places[(inside @ inside.sum(axis=0)).argmax()]
        bars.append(Bar(space.queries[nearest].query, len(places), len(places) / n))
    bars.sort(key=lambda bar: (-bar.count, bar.label))
    shares = np.array([bar.share for bar in bars])
    effective = np.exp(-(shares * np.log(shares)).sum())
    total = np.linalg.norm(vectors.sum(axis=0, dtype=np.float64)) ** 2
    return Groups(n, tuple(bars), float(effective), float((total - n) / (n * (n - 1))))
