"""Which train query uses which tool."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolbank.bank import Bank


@dataclass(frozen=True)
class Usage:
    """Train queries and the indices of their tools, [n_queries, most], padded with -1."""

    queries: list[str]
    tools: NDArray[np.int64]


def train_usage(bank: Bank) -> Usage:
    """The uses in the train split; a tool counts once a query, by whichever name.

    Names that the bank lacks are no uses.
    """
    train = bank.split("train")
    used = [
        sorted({bank.index[n] for n in query.tools if n in bank.index})
        for query in train
    ]
    tools = np.full((len(train), max(map(len, used), default=0)), -1, dtype=np.int64)
    for row, indices in zip(tools, used, strict=True):
        row[: len(indices)] = indices
    return Usage([query.query for query in train], tools)
