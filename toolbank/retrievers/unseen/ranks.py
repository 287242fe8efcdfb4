"""Unseen tools at the ranks that a first stage gives them, among others at their own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.ranking import Hits


def keep_ranks(first: Hits, unseen: NDArray[np.bool_], others: Hits) -> Hits:
    """Hits [n, k] in which unseen tools have their ranks of `first`, and the rest are `others`.

    `first` are all tools' hits [n, k], `unseen` [n, k] which of them are of unseen tools, and
    `others` [n, k] the other tools' hits, padded with scores of -inf where there are too few.

    Of two others and j unseen tools between them, the scores of these part the way down from
    the one to the other at 1 / 2, 1 / 3, ... 1 / (j + 1) from below. Above the first and below
    the last of all others the way is 1 long. So a score does not depend on k.
    """
    scores = others[1].astype(np.float64)
    best = scores[:, :1]
    scores = np.concatenate([np.where(np.isinf(best), 1, best + 1), scores], axis=1)
    # How many others stand at or before a rank, and how many unseen ones since the last.
    place = (~unseen).astype(np.int64).cumsum(axis=1)
    ranks = np.arange(unseen.shape[1])
    last = np.maximum.accumulate(np.where(unseen, -1, ranks), axis=1)
    above = np.take_along_axis(scores, place, axis=1)
    below = np.take_along_axis(scores, np.minimum(place + 1, scores.shape[1] - 1), 1)
    below = np.where(np.isinf(below), above - 1, below)
    between = below + (above - below) / (ranks - last + 1)
    rest = np.take_along_axis(others[0], np.maximum(place - 1, 0), axis=1)
    indices = np.where(unseen, first[0], rest)
    return indices, np.where(unseen, between, above).astype(np.float32)
