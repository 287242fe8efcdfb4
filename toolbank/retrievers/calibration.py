"""Scores as log-odds, and those of tools that no train query uses on the others' scale."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]

AS_IT_IS = np.array([1.0, 0.0])
"""Slope and intercept that leave a score as it is."""

_PAIRS = 2_000_000
_PRIOR_LINE = np.array([16.0, -7.0])
_PRIOR_WEIGHT = np.array([0.01, 0.1])
_LEAST_SLOPE = 4.0
_STEPS = 50


def fit_bridge(
    scores: NDArray[np.float32],
    described: NDArray[np.float32],
    uses: Rows,
    unused: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Slope and intercept from a similarity to a description to the score of equal odds.

    Of train queries and tools: `scores` [n, n_tools] as of a retriever that has not seen the
    query, `described` [n, n_tools] of the same pairs by the tools' descriptions alone, `uses`
    [n, most] padded with -1, and `unused` [n, n_tools], pairs whose tool no other query uses.
    Of both kinds the odds that the query needs the tool are fitted (Platt 1999).
    """
    if unused.all():
        return AS_IT_IS
    known = ~unused
    holds = mark_uses(uses, scores.shape[1])[known]
    slope, intercept = fit_line(scores[known], holds)
    from_slope, from_intercept = fit_line(described[known], holds)
    return np.array([from_slope / slope, (from_intercept - intercept) / slope])


def bridge(
    scores: NDArray[np.float32],
    described: NDArray[np.float32],
    unused: NDArray[np.bool_],
    line: NDArray[np.float64],
) -> NDArray[np.float32]:
    """Scores [n, n_tools]; those of unused tools from their descriptions', to six decimals."""
    moved = np.round(line[0] * described + line[1], 6)
    return np.where(unused, moved, scores).astype(np.float32)


def unused_without(
    uses: Rows, n_tools: int
) -> Callable[[slice | Rows], NDArray[np.bool_]]:
    """Gives for train queries [n] which tools [n, n_tools] no other train query uses."""
    counts = np.bincount(uses[uses >= 0], minlength=n_tools)

    def find(rows: slice | Rows) -> NDArray[np.bool_]:
        unused = np.repeat((counts == 0)[None], len(uses[rows]), axis=0)
        row, place = np.nonzero(uses[rows] >= 0)
        tools = uses[rows][row, place]
        unused[row, tools] = counts[tools] == 1
        return unused

    return find


def spread_rows(n_queries: int, n_columns: int) -> Rows:
    """Positions of queries, evenly spread, that make no more pairs than are needed.

    `n_columns` is with how many tools or texts each of them is compared.
    """
    wanted = min(n_queries, max(1, _PAIRS // max(n_columns, 1)))
    return np.linspace(0, n_queries - 1, wanted).astype(np.int64)


def mark_uses(uses: Rows, n_tools: int) -> NDArray[np.bool_]:
    """Whether a query uses a tool [n, n_tools], by `uses` [n, most] padded with -1."""
    # The last column takes the padding and is cut off.
    marked = np.zeros((len(uses), n_tools + 1), np.bool_)
    np.put_along_axis(marked, uses, True, axis=1)
    return marked[:, :n_tools]


def fit_line(
    values: NDArray[np.floating], holds: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Slope and intercept of the log-odds that something holds, over values [n].

    Logistic regression (Platt 1999), weakly drawn to a line that suits cosines of sentence
    encoders, so that it is finite with few examples or none. The slope is at least 4: a tool
    whose description is nearer is never taken for the less likely one, nor for as likely.
    """
    return regress(values[:, None], holds, _PRIOR_LINE, _PRIOR_WEIGHT, _LEAST_SLOPE)


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
