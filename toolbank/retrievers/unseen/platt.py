"""Similarities to descriptions as log-odds that a request needs the tool (Platt 1999)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toolbank.retrievers.logistic import regress

Rows = NDArray[np.int64]

_PAIRS = 2_000_000
_PRIOR_LINE = np.array([16.0, -7.0])
_PRIOR_WEIGHT = np.array([0.01, 0.1])
_LEAST_SLOPE = 4.0


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
