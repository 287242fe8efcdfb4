"""Tools that no train query uses, among those that explain a request."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toolbank.ranking.topk import Hits


def keep_ranks(first: Hits, unused: NDArray[np.bool_], others: Hits) -> Hits:
    """Hits [n, k] in which unused tools have their ranks of `first`, and the rest are `others`.

    `first` are all tools' hits [n, k], `unused` [n, k] which of them are of unused tools, and
    `others` [n, k] the other tools' hits, padded with scores of -inf where there are too few.

    Of two others and j unused tools between them, the scores of these part the way down from
    the one to the other at 1 / 2, 1 / 3, ... 1 / (j + 1) from below. Above the first and below
    the last of all others the way is 1 long. So a score does not depend on k.
    """
    scores = others[1].astype(np.float64)
    best = scores[:, :1]
    scores = np.concatenate([np.where(np.isinf(best), 1, best + 1), scores], axis=1)
    # How many others stand at or before a rank, and how many unused ones since the last.
    place = (~unused).astype(np.int64).cumsum(axis=1)
    ranks = np.arange(unused.shape[1])
    last = np.maximum.accumulate(np.where(unused, -1, ranks), axis=1)
    above = np.take_along_axis(scores, place, axis=1)
    below = np.take_along_axis(scores, np.minimum(place + 1, scores.shape[1] - 1), 1)
    below = np.where(np.isinf(below), above - 1, below)
    between = below + (above - below) / (ranks - last + 1)
    rest = np.take_along_axis(others[0], np.maximum(place - 1, 0), axis=1)
    indices = np.where(unused, first[0], rest)
    return indices, np.where(unused, between, above).astype(np.float32)
