"""Pairs of train queries and tools, to fit log-odds on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]

_PAIRS = 2_000_000


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
