"""What a first stage says of its candidates: features, and log-odds by them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toolbank.retrievers.logistic import regress

_PRIOR = np.array([2.0, 2.5, -5.4])
_PRIOR_WEIGHT = np.array([1.0, 1.0, 0.1])
_LEAST_SLOPE = 0.1


def first_stage_features(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """What a first stage thinks of its candidates [n, k, 2], by its falling scores [n, k].

    The score, less the mean and by the deviation of the request's candidates, so that it means
    the same whatever the first stage; and one over the rank.
    """
    apart = scores - scores.mean(axis=1, keepdims=True, dtype=np.float64)
    spread = np.maximum(apart.std(axis=1, keepdims=True), 1e-6)
    ranks = np.broadcast_to(1 / np.arange(1, scores.shape[1] + 1), scores.shape)
    return np.stack([apart / spread, ranks], axis=-1).astype(np.float32)


def fit_log_odds(
    features: NDArray[np.float32], labels: NDArray[np.bool_]
) -> tuple[NDArray[np.float32], float]:
    """Slopes [2] and intercept of a label's log-odds by these features alone.

    `features` [n, k, 2] and `labels` [n, k] are the candidates' of n requests. Drawn to what
    holds for Tool2Vec on UltraTool, so that few requests do; the slopes are above zero, so that
    the first stage's order is theirs.
    """
    found = regress(
        features.reshape(-1, 2), labels.ravel(), _PRIOR, _PRIOR_WEIGHT, _LEAST_SLOPE
    )
    return found[:2].astype(np.float32), float(found[2])
