"""Logistic regression: log-odds by features, drawn to what is known of such features."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_STEPS = 50


def regress(
    features: NDArray[np.floating],
    holds: NDArray[np.bool_],
    prior: NDArray[np.float64],
    weight: NDArray[np.float64],
    least_slope: float,
) -> NDArray[np.float64]:
    """Slopes [m] and, last, the intercept of the log-odds that something holds.

    Logistic regression over `features` [n, m]; `holds` [n]. The coefficients [m + 1] are drawn
    to `prior` with the precisions `weight`. A slope that would be below `least_slope` is set to
    it, and the other coefficients are fitted beside it.
    """
    ones = np.ones((len(features), 1))
    columns = np.concatenate([features, ones], axis=1).astype(np.float64)
    found, free = prior.copy(), np.ones(len(prior), np.bool_)
    while True:
        given = columns[:, ~free] @ found[~free]
        found[free] = _solve(columns[:, free], holds, given, prior[free], weight[free])
        low = free & (found < least_slope)
        low[-1] = False
        if not low.any():
            return found
        found[low] = least_slope
        free &= ~low


def _solve(
    features: NDArray[np.float64],
    holds: NDArray[np.bool_],
    given: NDArray[np.float64],
    prior: NDArray[np.float64],
    weight: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Coefficients of a logistic regression on `features` [n, m], by Newton's method.

    `holds` [n] is what is regressed. `given` [n] are log-odds that are there already; the
    coefficients are normally distributed around `prior` with precisions `weight`.
    """

    def loss(coefficients: NDArray[np.float64]) -> float:
        odds = features @ coefficients + given
        away = weight @ (coefficients - prior) ** 2 / 2
        return float(np.logaddexp(0, odds).sum() - odds[holds].sum() + away)

    found, reached = prior.copy(), loss(prior)
    for _ in range(_STEPS):
        chances = np.exp(-np.logaddexp(0, -(features @ found + given)))
        slopes = features.T @ (chances - holds) + weight * (found - prior)
        spread = features * (chances * (1 - chances))[:, None]
        step = np.linalg.solve(spread.T @ features + np.diag(weight), slopes)
        # From far away a full step can overshoot.
        while loss(found - step) > reached and np.abs(step).max() > 1e-8:
            step = step / 2
        if np.abs(step).max() < 1e-8:
            break
        found = found - step
        reached = loss(found)
    return found
