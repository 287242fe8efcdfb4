"""Non-negative elastic net, for many requests at once."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_TOLERANCE = 1e-7
_MOST_ITERATIONS = 5_000


def solve(gram: Floats, target: Floats, l1: float, l2: float) -> Floats:
    """The weights w >= 0 that minimise ||q - D w||^2 / 2 + l1 sum(w) + l2 ||w||^2 / 2.

    Of each request, `gram` [n, m, m] is D'D of the vectors of its m candidates, and `target`
    [n, m] is D'q; gives w [n, m]. By FISTA (Beck and Teboulle 2009) that starts its momentum
    anew where the objective would rise (O'Donoghue and Candes 2015). A request is done when no
    weight would move by more than 1e-7 in a step of the plain gradient, scaled by the step's
    length: so far it is from the conditions of Karush, Kuhn and Tucker. After 5,000 steps it
    is taken as it is. What one request gets does not depend on the others.
    """
    weights = np.zeros_like(target)
    # Bounds the largest eigenvalue: the largest sum of a row's absolute values.
    curvature = np.abs(gram).sum(axis=2).max(axis=1, initial=0)[:, None] + l2
    curvature = np.maximum(curvature, np.finfo(np.float64).tiny)
    rows = np.arange(len(target))
    now, ahead, momentum = weights, weights, np.ones((len(target), 1))
    for _ in range(_MOST_ITERATIONS):
        if not len(rows):
            break
        gradient = (gram @ ahead[:, :, None])[:, :, 0] + l2 * ahead - target + l1
        after = np.maximum(ahead - gradient / curvature, 0)
        moved = after - ahead
        done = np.abs(moved * curvature).max(axis=1, initial=0) <= _TOLERANCE
        against = (moved * (after - now)).sum(axis=1, keepdims=True) < 0
        following = np.where(against, 1.0, (1 + np.sqrt(1 + 4 * momentum**2)) / 2)
        ahead = after + np.where(against, 0, (momentum - 1) / following) * (after - now)
        now, momentum = after, following
        if done.any():
            weights[rows[done]] = now[done]
            rows, gram, target, curvature, now, ahead, momentum = (
                array[~done]
                for array in (rows, gram, target, curvature, now, ahead, momentum)
            )
    weights[rows] = now
    return weights
