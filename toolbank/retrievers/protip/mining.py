"""Hard negatives: the tools that are nearest to a step and would not serve its plan."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.ranking import top_k
from toolbank.retrievers.protip.examples import find_used
from toolbank.retrievers.protip.plans import Plan

Vectors = NDArray[np.float32]


def mine_negatives(
    plans: Sequence[Plan], queries: Vectors, tools: Vectors, most: int
) -> list[list[list[int]]]:
    """The nearest tools to every step of every plan by L2 distance, of those other plans use.

    `queries` [n, d] are the vectors of the plans' requests and `tools` [m, d] those of all tools;
    gives at most `most` tools for each step, nearest first.
    """
    mined: list[list[list[int]]] = []
    used = np.array(find_used(plans), dtype=np.int64)
    offered = tools[used]
    squares = np.square(offered).sum(axis=1)
    for plan, query in zip(plans, queries, strict=True):
        own = list(plan.tools)
        is_near = np.isin(used, [*own, *plan.spared])
        before = np.cumsum(tools[own], axis=0) - tools[own]
        steps = query - before[: plan.steps]
        nearness = 2 * steps @ offered.T - squares
        nearness[:, is_near] = -np.inf
        nearest, _ = top_k(nearness, min(most, int((~is_near).sum())))
        mined.append(used[nearest].tolist())
    return mined
