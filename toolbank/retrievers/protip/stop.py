"""Where a plan ends: chosen on plans that are known."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toolbank.retrievers.protip.progressive import SearchTrace

_CHOICES = 100


def choose_threshold(trace: SearchTrace, plans: Sequence[Sequence[int]]) -> float:
    """The least residual of a step for which the tools that are taken are most like the plans'.

    By the mean F1 of a request's tools; among equals, the one that ends plans sooner.
    """
    shares = np.linspace(0, 1, _CHOICES)
    choices = np.unique(np.quantile(trace.residuals, shares, method="lower"))
    taken = trace.hits[:, :, 0]
    right = np.array(
        [np.isin(row, plan) for row, plan in zip(taken, plans, strict=True)]
    )
    # How many were right by each step; none is taken twice.
    found = right.cumsum(axis=1)
    sizes = np.array([len(set(plan)) for plan in plans])
    means = [_mean_f1(found, sizes, trace.lengths(choice)) for choice in choices]
    best = len(means) - 1 - int(np.argmax(means[::-1]))
    return float(choices[best])


def _mean_f1(
    found: NDArray[np.int64], sizes: NDArray[np.int64], lengths: NDArray[np.int64]
) -> float:
    """Of plans [n] that end after so many steps; `found` [n, steps] are right ones up to each."""
    hits = found[np.arange(len(found)), lengths - 1]
    return float((2 * hits / (sizes + lengths)).mean())
