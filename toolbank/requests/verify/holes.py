"""Check for holes: relevant tools that retrievers find and that no grader has seen."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from toolbank.bank.bank import Bank, Label, QueryLabels, group_labels
from toolbank.bank.split import sample_queries
from toolbank.requests.verify.agreement import measure_share
from toolbank.requests.verify.candidates import Candidate
from toolbank.retrievers import create_retriever
from toolbank.retrievers.settings import (
    Bm25Config,
    DescriptionsConfig,
    NearestConfig,
    Tool2VecConfig,
)

if TYPE_CHECKING:
    from toolbank.bank.records import Query

POOLED = Bm25Config(), DescriptionsConfig(), NearestConfig(), Tool2VecConfig()
"""The retrievers whose hits are pooled, fitted on the train split; those that it can't teach are left out."""

DEPTH = 10
"""How many hits of each are pooled."""

_CUT_OFF = 5


class HoleCheck:
    """The hits of four retrievers for some graded test requests, and which of them nobody graded.

    `labels` are the merged labels of the bank. `seen` has by request the tools that graders were
    shown; hits among them that have no label are known not to be relevant.
    """

    def __init__(
        self,
        bank: Bank,
        labels: Sequence[Label],
        seen: Mapping[str, Collection[str]],
        n: int,
        seed: int,
    ) -> None:
        self._labels = {
            query: one for query, one in group_labels(labels).items() if one.needed
        }
        graded = [
            q for q in bank.split("test") if q.id in self._labels and q.id in seen
        ]
        self.queries = sample_queries(graded, n, seed)
        texts = [query.query for query in self.queries]
        self._hits: dict[str, list[list[str]]] = {}
        learnt = replace(bank, labels=tuple(labels)).with_labels_applied()
        for config in POOLED if texts else ():
            if config.needs_queries and not learnt.train_queries:
                continue
            retriever = create_retriever(config)
            retriever.fit(learnt)
            places, _ = retriever.search(texts, DEPTH)
            self._hits[config.label] = [
                [bank.tools[place].name for place in row if place >= 0]
                for row in places
            ]
        self._pooled = {
            query.id: dict.fromkeys(
                name for hits in self._hits.values() for name in hits[row]
            )
            for row, query in enumerate(self.queries)
        }
        self._unseen = {
            query: [name for name in pooled if name not in seen[query]]
            for query, pooled in self._pooled.items()
        }

    @property
    def to_grade(self) -> tuple[list[Query], dict[str, list[Candidate]]]:
        """The requests with tools to grade, and for each its labelled tools and the unseen ones."""
        queries = [query for query in self.queries if self._unseen[query.id]]
        return queries, {
            q.id: [
                Candidate(query=q.id, key="", tool=name, found_by=("hole",))
                for name in dict.fromkeys(
                    [*_relevant(self._labels[q.id]), *self._unseen[q.id]]
                )
            ]
            for q in queries
        }

    def describe(self, graded: Mapping[str, Sequence[Label]]) -> dict[str, Any]:
        """Sum up the grades of the requests of `to_grade`; requests without one are left out.

        Keys: `requests` that were checked; `not_graded`, requests without a usable grade; `pooled`
        tools, of these `unseen`; of the unseen tools `relevant` (needed or alternative); `missing`,
        how many of all relevant tools of these requests were missing; `incomplete`, how many requests
        miss one (shares with Wilson intervals); `retrievers` with R@5 `before` and `after`; `tau`,
        Kendall's tau-b of the two orders (None if all are equal), and `order_changes`; and `tools`,
        the missing ones.
        """
        from scipy.stats import kendalltau

        after = group_labels(one for labels in graded.values() for one in labels)
        aside = {query for query, one in after.items() if not one.needed}
        rows = [
            row
            for row, query in enumerate(self.queries)
            if not self._unseen[query.id] or query.id in after.keys() - aside
        ]
        ids = [self.queries[row].id for row in rows]
        found = {
            query: [n for n in self._unseen[query] if n in _relevant(after[query])]
            for query in ids
            if query in after
        }
        n_missing = sum(map(len, found.values()))
        n_known = sum(len(_relevant(self._labels[query])) for query in ids)
        n_unseen = sum(len(self._unseen[query]) for query in ids)
        recalls = {
            name: {
                "before": _mean_recall(
                    [hits[r] for r in rows], [self._labels[i] for i in ids]
                ),
                "after": _mean_recall(
                    [hits[r] for r in rows],
                    [after.get(i, self._labels[i]) for i in ids],
                ),
            }
            for name, hits in self._hits.items()
        }
        before, later = (
            [one[key] for one in recalls.values()] for key in ("before", "after")
        )
        tau = float(kendalltau(before, later).statistic) if ids else float("nan")
        return {
            "requests": len(ids),
            "not_graded": len(self.queries) - len(ids),
            "pooled": sum(len(self._pooled[query]) for query in ids),
            "unseen": n_unseen,
            "relevant": measure_share(n_missing, n_unseen),
            "missing": measure_share(n_missing, n_known + n_missing),
            "incomplete": measure_share(sum(map(bool, found.values())), len(ids)),
            "retrievers": recalls,
            "tau": None if np.isnan(tau) else tau,
            "order_changes": _rank(before) != _rank(later),
            "tools": [
                {
                    "query": query,
                    "tool": name,
                    "grade": "needed" if name in after[query].needed else "alternative",
                }
                for query, names in found.items()
                for name in names
            ],
        }


def _relevant(labels: QueryLabels) -> tuple[str, ...]:
    return (*labels.needed, *labels.all_alternatives)


def _mean_recall(hits: Sequence[Sequence[str]], labels: Sequence[QueryLabels]) -> float:
    """R@5, where a hit on an alternative counts as one on the tool that it replaces."""
    recalls = []
    for top, one in zip(hits, labels, strict=True):
        served = [
            not {name, *one.alternatives.get(name, ())}.isdisjoint(top[:_CUT_OFF])
            for name in one.needed
        ]
        recalls.append(sum(served) / len(served))
    return float(np.mean(recalls)) if recalls else 0.0


def _rank(values: Sequence[float]) -> list[int]:
    """The rank of each value; equal values have the same."""
    return [sum(other > value for other in values) for value in values]
