"""Which tools are relevant to which query: the labels of a bank."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.records import Query

_RULES_WEIGHT = 0.25


@dataclass(frozen=True)
class Relevance:
    """Queries, and the indices of their tools, [n_queries, most], padded with -1.

    `spared` [n_queries, most], padded alike, are tools that would serve in place of one of those,
    as far as that was verified: no query is taught to stay away from them. `weights` [n_queries] say how much each query tells of its tools, in queries of a language
    model or a person. One by the `rules` engine counts for a quarter: its words are mostly the
    reference's own.
    """

    queries: list[str]
    tools: NDArray[np.int64]
    weights: NDArray[np.float64]
    spared: NDArray[np.int64]


def train_relevance(bank: Bank) -> Relevance:
    """The labels of `Bank.train_queries`; a tool counts once a query, by whichever name.

    Names that the bank lacks are no labels.
    """
    return find_relevance(bank, bank.train_queries)


def find_relevance(bank: Bank, queries: Sequence[Query]) -> Relevance:
    """The labels of these queries, as of `train_relevance`."""
    used = [
        {bank.index[n] for n in query.tools if n in bank.index} for query in queries
    ]
    others = [
        {bank.index[n] for n in bank.alternatives(query) if n in bank.index} - own
        for query, own in zip(queries, used, strict=True)
    ]
    return Relevance(
        [query.query for query in queries],
        _pad(used),
        np.array([_weight(query) for query in queries], dtype=np.float64),
        _pad(others),
    )


def _pad(rows: Sequence[set[int]]) -> NDArray[np.int64]:
    padded = np.full((len(rows), max(map(len, rows), default=0)), -1, dtype=np.int64)
    for row, indices in zip(padded, rows, strict=True):
        row[: len(indices)] = sorted(indices)
    return padded


def _weight(query: Query) -> float:
    by_rules = query.provenance is not None and query.provenance.engine == "rules"
    return _RULES_WEIGHT if by_rules else 1.0
