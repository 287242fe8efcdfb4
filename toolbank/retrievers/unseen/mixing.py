"""How much a tool's description counts beside what the classifier has learnt of the tool."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

USUAL_WEIGHT = 4.0
"""Where there are no validation queries."""

WEIGHTS = (USUAL_WEIGHT, 0.0, 1.0, 2.0, 8.0, 16.0, 32.0)
"""Those that are tried on validation queries; the first of those that do alike is taken."""


def description_shares(uses: NDArray[np.float64], weight: float) -> NDArray[np.float64]:
    """The description's share [n_tools] in a tool's log-odds, by the queries that use the tool.

    It counts like so many queries: weight / (weight + uses), and 1 without any use.
    """
    return np.where(uses > 0, weight / np.maximum(weight + uses, 1e-9), 1.0)


def mix(
    described: NDArray[np.float32],
    classified: NDArray[np.float32],
    shares: NDArray[np.float64],
) -> NDArray[np.float32]:
    """Log-odds [n, n_tools], of as many decimals as do not depend on the batch."""
    mixed = shares * described + (1 - shares) * classified
    return np.round(mixed, 6).astype(np.float32)
