"""ToolRefiner: a request and its candidates in one pass (arXiv 2409.02141, section 4.3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toolbank.retrievers.unseen import regress

_PRIOR = np.array([2.0, 2.5, -5.4])
_PRIOR_WEIGHT = np.array([1.0, 1.0, 0.1])
_LEAST_SLOPE = 0.1


def first_stage_features(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """What a first stage thinks of its candidates [n, k, 2], by its falling scores [n, k].

    The score, less the mean and by the deviation of the request's candidates, so that it means
    the same whatever the first stage; and one over the rank. Zeros where there is no candidate,
    at scores of -inf.
    """
    features = np.zeros((*scores.shape, 2), np.float32)
    counts = np.isfinite(scores).sum(axis=1)
    for count in np.unique(counts[counts > 0]):
        rows = counts == count
        features[rows, :count] = _standardise(scores[rows, :count])
    return features


def fit_log_odds(
    features: NDArray[np.float32], labels: NDArray[np.bool_]
) -> tuple[NDArray[np.float32], float]:
    """Slopes [2] and intercept of a label's log-odds by these features alone.

    `features` [m, 2] and `labels` [m] are the candidates' of all requests. Drawn to what
    holds for Tool2Vec on UltraTool, so that few requests do; the slopes are above zero, so that
    the first stage's order is theirs.
    """
    found = regress(features, labels, _PRIOR, _PRIOR_WEIGHT, _LEAST_SLOPE)
    return found[:2].astype(np.float32), float(found[2])


def _standardise(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    apart = scores - scores.mean(axis=1, keepdims=True, dtype=np.float64)
    spread = np.maximum(apart.std(axis=1, keepdims=True), 1e-6)
    ranks = np.broadcast_to(1 / np.arange(1, scores.shape[1] + 1), scores.shape)
    return np.stack([apart / spread, ranks], axis=-1).astype(np.float32)
