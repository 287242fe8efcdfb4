"""Bringing the scores of tools that no train query uses to the scale of the others'."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]

AS_IT_IS = np.array([1.0, 0.0])
"""Slope and intercept that leave a score as it is."""

_PAIRS = 2_000_000


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
    from toolbank.retrievers.fallback import fit_line

    if unused.all():
        return AS_IT_IS
    needed = np.zeros((len(uses), scores.shape[1] + 1), np.bool_)
    # The last column takes the padding and is cut off.
    np.put_along_axis(needed, uses, True, axis=1)
    known = ~unused
    holds = needed[:, :-1][known]
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


def spread_rows(n_queries: int, n_tools: int) -> Rows:
    """Positions of queries, evenly spread, that make no more pairs with tools than are needed."""
    wanted = min(n_queries, max(1, _PAIRS // max(n_tools, 1)))
    return np.linspace(0, n_queries - 1, wanted).astype(np.int64)
