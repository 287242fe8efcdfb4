"""Which tools are relevant to which query, and how well a retriever finds them during training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.ranking import Hits, find_gold, ndcg, recall
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


RECALL_AT = 5


def validation_queries(bank: Bank) -> list[Query]:
    """The queries of split "validation" that have a tool of the bank; others tell nothing."""
    return [
        query
        for query in bank.split("validation")
        if any(name in bank.index for name in query.tools)
    ]


def validation_recall(
    search: Callable[[Sequence[str], int], Hits], bank: Bank
) -> float:
    """Mean Recall@5 of a search on `validation_queries`, of which there must be some.

    With a millionth of the mean nDCG@5: of epochs that find as much, the one whose tools stand
    higher is better. Where nearly all is found, many do.
    """
    relevance = find_relevance(bank, validation_queries(bank))
    hits = search(relevance.queries, RECALL_AT)
    found = find_gold(hits[0][:, :RECALL_AT], relevance.tools)
    places = ndcg(found, (relevance.tools >= 0).sum(axis=1), RECALL_AT)
    return mean_recall(hits, relevance) + 1e-6 * float(places.mean())


def mean_recall(hits: Hits, relevance: Relevance) -> float:
    """Mean Recall@5 of the first five hits of queries, of which there must be some."""
    found = find_gold(hits[0], relevance.tools)
    return float(recall(found, (relevance.tools >= 0).sum(axis=1), RECALL_AT).mean())
