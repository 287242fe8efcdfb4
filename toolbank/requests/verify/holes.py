"""Check for holes: relevant tools that retrievers find and that no grader has seen."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from toolbank.bank.bank import Bank, Label, QueryLabels, group_labels
from toolbank.bank.split import sample_queries
from toolbank.requests.verify.agreement import Share, measure_share
from toolbank.requests.verify.candidates import Candidate
from toolbank.retrievers import create_retriever
from toolbank.retrievers.settings import (
    Bm25Config,
    DescriptionsConfig,
    NearestConfig,
    Tool2VecConfig,
)
from toolbank.system.numbers import count

if TYPE_CHECKING:
    from toolbank.bank.records import Query

POOLED = Bm25Config(), DescriptionsConfig(), NearestConfig(), Tool2VecConfig()
"""The retrievers whose hits are pooled, fitted on the train split; those that it can't teach are left out."""

DEPTH = 10
"""How many hits of each are pooled."""

_CUT_OFF = 5


@dataclass(frozen=True)
class HoleFigures:
    """What the hole check of some test `requests` came to.

    `not_graded` requests have no usable grade and are left out. Of the `pooled` tools, nobody had
    `unseen` ones. `relevant` is the share of these that are needed or alternatives; `missing` the
    share of all relevant tools that are among them; `incomplete` the share of requests that miss one.
    `retrievers` have R@5 before and after, `tau` is Kendall's tau-b of the two orders (None if all of
    one are equal), and `tools` are the missing ones.
    """

    requests: int
    not_graded: int
    pooled: int
    unseen: int
    relevant: Share
    missing: Share
    incomplete: Share
    retrievers: dict[str, dict[str, float]]
    tau: float | None
    order_changes: bool
    tools: list[dict[str, str]]

    def describe(self) -> str:
        """Describe the check in a sentence."""
        if not self.requests:
            return "hole check: no test request has grades"
        order = "whether the order of the retrievers changes cannot be told"
        if self.tau is not None:
            changes = "changes" if self.order_changes else "stays"
            order = (
                f"the order of the retrievers {changes} (Kendall's tau {self.tau:.2f})"
            )
        return (
            f"hole check of {count(self.requests, 'test request')}: {self.missing} of the relevant "
            f"tools were missing ({self.missing.count:,} of {self.missing.n:,}); {order}"
        )


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

    def measure(self, graded: Mapping[str, Sequence[Label]]) -> HoleFigures:
        """Sum up the grades of the requests of `to_grade`; requests without one are left out."""
        from scipy.stats import kendalltau

        after = group_labels(one for labels in graded.values() for one in labels)
        rows = [
            (row, query.id)
            for row, query in enumerate(self.queries)
            if not self._unseen[query.id]
            or (query.id in after and after[query.id].needed)
        ]
        missing = [
            (query, name, "needed" if name in after[query].needed else "alternative")
            for _, query in rows
            for name in self._unseen[query]
            if name in _relevant(after[query])
        ]
        known = sum(len(_relevant(self._labels[query])) for _, query in rows)
        unseen = sum(len(self._unseen[query]) for _, query in rows)
        then, now = (
            {
                name: _mean_recall(
                    [hits[row] for row, _ in rows], [of(q) for _, q in rows]
                )
                for name, hits in self._hits.items()
            }
            for of in (
                self._labels.__getitem__,
                lambda q: after.get(q, self._labels[q]),
            )
        )
        orders = list(then.values()), list(now.values())
        tau = float(kendalltau(*orders).statistic) if rows else float("nan")
        return HoleFigures(
            requests=len(rows),
            not_graded=len(self.queries) - len(rows),
            pooled=sum(len(self._pooled[query]) for _, query in rows),
            unseen=unseen,
            relevant=measure_share(len(missing), unseen),
            missing=measure_share(len(missing), known + len(missing)),
            incomplete=measure_share(len({query for query, *_ in missing}), len(rows)),
            retrievers={
                name: {"before": then[name], "after": now[name]} for name in then
            },
            tau=None if np.isnan(tau) else tau,
            order_changes=_rank(orders[0]) != _rank(orders[1]),
            tools=[
                {"query": q, "tool": tool, "grade": grade} for q, tool, grade in missing
            ],
        )


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
