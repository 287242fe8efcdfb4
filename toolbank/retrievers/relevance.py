"""Which tools are relevant to which query, and how well a retriever finds them during training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.ranking import Hits, match_gold, ndcg, recall
from toolbank.bank.records import Query

_RULES_WEIGHT = 0.25


@dataclass(frozen=True)
class Relevance:
    """Queries, and the indices of their tools, [n_queries, most], padded with -1.

    `spared` [n_queries, most], padded alike, are verified alternatives of these tools: they are
    never negatives. `weights` [n_queries] are 1 for queries by a person or a language model. A query
    by the `rules` engine counts for a quarter, because its words are mostly the reference's own.
    """

    queries: list[str]
    tools: NDArray[np.int64]
    weights: NDArray[np.float64]
    spared: NDArray[np.int64]


def train_relevance(bank: Bank) -> Relevance:
    """Resolve the labels of `Bank.train_queries`, each tool once per query.

    Names that the bank lacks are skipped.
    """
    return find_relevance(bank, bank.train_queries)


def find_relevance(bank: Bank, queries: Sequence[Query]) -> Relevance:
    """Resolve the labels of these queries, as in `train_relevance`."""
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
    """Return the validation queries that have a tool of the bank."""
    return [
        query
        for query in bank.split("validation")
        if any(name in bank.index for name in query.tools)
    ]


def validation_recall(
    search: Callable[[Sequence[str], int], Hits], bank: Bank
) -> float:
    """Return mean Recall@5 of a search on `validation_queries`, which must not be empty.

    A millionth of the mean nDCG@5 is added: among epochs of equal recall, the better ranking wins.
    """
    relevance = find_relevance(bank, validation_queries(bank))
    hits = search(relevance.queries, RECALL_AT)
    found = match_gold(hits[0][:, :RECALL_AT], relevance.tools)
    places = ndcg(found, (relevance.tools >= 0).sum(axis=1), RECALL_AT)
    return mean_recall(hits, relevance) + 1e-6 * float(places.mean())


def mean_recall(hits: Hits, relevance: Relevance) -> float:
    """Return mean Recall@5 of queries, which must not be empty."""
    found = match_gold(hits[0], relevance.tools)
    return float(recall(found, (relevance.tools >= 0).sum(axis=1), RECALL_AT).mean())
