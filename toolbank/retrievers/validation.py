"""How well a retriever does on the validation queries while it is trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from toolbank.bank.bank import Bank
from toolbank.bank.ranking import Hits, find_gold, ndcg, recall
from toolbank.bank.records import Query
from toolbank.retrievers.relevance import Relevance, find_relevance

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
