"""Similarities to descriptions, aligned with the scores of tools that train queries use."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from toolbank.retrievers.unseen.platt import Rows, fit_line, mark_uses

AS_IT_IS = np.array([1.0, 0.0])
"""Slope and intercept that leave a score as it is."""


def fit_alignment(
    scores: NDArray[np.float32],
    described: NDArray[np.float32],
    uses: Rows,
    unseen: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Slope and intercept from a similarity to a description to the score of equal odds.

    Of train queries and tools: `scores` [n, n_tools] as of a retriever that has not seen the
    query, `described` [n, n_tools] of the same pairs by the tools' descriptions alone, `uses`
    [n, most] padded with -1, and `unseen` [n, n_tools], pairs whose tool no other query uses.
    Of both kinds the odds that the query needs the tool are fitted (Platt 1999).
    """
    if unseen.all():
        return AS_IT_IS
    known = ~unseen
    holds = mark_uses(uses, scores.shape[1])[known]
    slope, intercept = fit_line(scores[known], holds)
    from_slope, from_intercept = fit_line(described[known], holds)
    return np.array([from_slope / slope, (from_intercept - intercept) / slope])


def align(
    scores: NDArray[np.float32],
    described: NDArray[np.float32],
    unseen: NDArray[np.bool_],
    line: NDArray[np.float64],
) -> NDArray[np.float32]:
    """Scores [n, n_tools]; those of unseen tools from their descriptions', to six decimals."""
    moved = np.round(line[0] * described + line[1], 6)
    return np.where(unseen, moved, scores).astype(np.float32)


def unseen_without(
    uses: Rows, n_tools: int
) -> Callable[[slice | Rows], NDArray[np.bool_]]:
    """Gives for train queries [n] which tools [n, n_tools] no other train query uses."""
    counts = np.bincount(uses[uses >= 0], minlength=n_tools)

    def find(rows: slice | Rows) -> NDArray[np.bool_]:
        unseen = np.repeat((counts == 0)[None], len(uses[rows]), axis=0)
        row, place = np.nonzero(uses[rows] >= 0)
        tools = uses[rows][row, place]
        unseen[row, tools] = counts[tools] == 1
        return unseen

    return find
