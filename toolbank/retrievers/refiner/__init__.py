"""ToolRefiner: a request and its candidates in one pass (arXiv 2409.02141, section 4.3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toolbank.retrievers.unseen import regress

_PRIOR = np.array([2.0, 2.5, -5.4])
_PRIOR_WEIGHT = np.array([1.0, 1.0, 0.1])
_LEAST_SLOPE = 0.1


def first_stage_features(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Compute features [n, k, 2] of candidates from a first stage's falling scores [n, k].

    The score, standardised over the request's candidates, and one over the rank. Zeros where there
    is no candidate, at scores of -inf.
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
    """Fit slopes [2] and intercept of a label's log-odds by these features.

    `features` [m, 2] and `labels` [m] are those of all candidates. The prior is the fit for
    Tool2Vec on UltraTool, so few requests suffice. The slopes are positive, so the order of the
    first stage is kept.
    """
    found = regress(features, labels, _PRIOR, _PRIOR_WEIGHT, _LEAST_SLOPE)
    return found[:2].astype(np.float32), float(found[2])


def _standardise(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    apart = scores - scores.mean(axis=1, keepdims=True, dtype=np.float64)
    spread = np.maximum(apart.std(axis=1, keepdims=True), 1e-6)
    ranks = np.broadcast_to(1 / np.arange(1, scores.shape[1] + 1), scores.shape)
    return np.stack([apart / spread, ranks], axis=-1).astype(np.float32)
