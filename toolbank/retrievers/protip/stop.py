"""Where a plan ends: chosen on plans that are known."""

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from toolbank.retrievers.protip.progressive import Steps

_CHOICES = 100


def choose_least_rest(steps: Steps, plans: Sequence[Sequence[int]]) -> float:
    """The least rest of a step for which the tools that are taken are most like the plans'.

    By the mean F1 of a request's tools; among equals, the one that ends plans sooner.
    """
    shares = np.linspace(0, 1, _CHOICES)
    choices = np.unique(np.quantile(steps.rests, shares, method="lower"))
    means = [_mean_f1(steps, plans, choice) for choice in choices]
    best = len(means) - 1 - int(np.argmax(means[::-1]))
    return float(choices[best])


def _mean_f1(steps: Steps, plans: Sequence[Sequence[int]], least_rest: float) -> float:
    lengths = steps.lengths(least_rest)
    return fmean(
        2 * len(set(plan) & set(taken[:length].tolist())) / (len(plan) + length)
        for plan, taken, length in zip(plans, steps.hits[:, :, 0], lengths, strict=True)
    )
