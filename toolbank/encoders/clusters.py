"""Texts in groups by their vectors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toolbank.system.numbers import unsigned


def cluster(vectors: NDArray[np.float32], count: int, seed: int) -> NDArray[np.int64]:
    """The cluster [n], from 0, of each of vectors [n, d]: k-means, the best of ten starts.

    There are `count` clusters, or fewer where fewer vectors differ; the same for the same seed.
    """
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    count = min(count, len(np.unique(vectors, axis=0)))
    means = KMeans(count, n_init=10, random_state=unsigned(seed, bits=32))
    # Sums of several threads are added up in no fixed order.
    with threadpool_limits(1):
        return np.asarray(means.fit_predict(vectors), np.int64)
