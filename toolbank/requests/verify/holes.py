"""Check for holes: relevant tools that retrievers find and that no grader has seen."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from toolbank.bank.bank import Bank, Label, QueryLabels, group_labels
from toolbank.bank.ranking import Share, measure_share
from toolbank.bank.split import sample_queries
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
    from toolbank.retrievers.kind import RetrieverConfig

DEFAULTS = Bm25Config(), DescriptionsConfig(), NearestConfig(), Tool2VecConfig()
"""The retrievers that fill up those of a recipe."""

DEPTH = 10
"""How many hits of each retriever are pooled."""

_CUT_OFF = 5


def choose_retrievers(configs: Iterable[RetrieverConfig]) -> list[RetrieverConfig]:
    """Choose four retrievers of different types whose hits are pooled.

    They are the first ones of a recipe that need no training, model, permission or other retriever;
    default ones fill up.
    """
    own = (
        one
        for one in configs
        if not (one.needs or one.trainings or one.models or one.grants)
    )
    of: dict[str, RetrieverConfig] = {}
    for one in (*own, *DEFAULTS):
        of.setdefault(one.type, one)
    return list(of.values())[: len(DEFAULTS)]


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

    The `retrievers` are fitted on the train split; those that it can't teach are left out. `labels`
    are the merged labels of the bank. `seen` has by request the tools that graders were shown; hits
    among them that have no label are known not to be relevant.
    """

    def __init__(
        self,
        bank: Bank,
        labels: Sequence[Label],
        seen: Mapping[str, Collection[str]],
        retrievers: Iterable[RetrieverConfig],
        n: int,
        seed: int,
    ) -> None:
        grouped = group_labels(labels)
        self._labels = {query: one for query, one in grouped.items() if one.needed}
        known = self._labels.keys() & seen.keys()
        graded = [query for query in bank.split("test") if query.id in known]
        self.queries = sample_queries(graded, n, seed)
        learnt = replace(bank, labels=tuple(labels)).with_labels_applied()
        self._hits: dict[str, dict[str, list[str]]] = {}
        for config in retrievers if self.queries else ():
            if config.needs_queries and not learnt.train_queries:
                continue
            retriever = create_retriever(config)
            retriever.fit(learnt)
            places, _ = retriever.search([one.query for one in self.queries], DEPTH)
            self._hits[config.label] = {
                query.id: [bank.tools[place].name for place in row if place >= 0]
                for query, row in zip(self.queries, places, strict=True)
            }
        self._pooled = {
            one.id: list(
                dict.fromkeys(chain(*(h[one.id] for h in self._hits.values())))
            )
            for one in self.queries
        }
        self._unseen = {
            query: [
                name
                for name in pooled
                if name not in seen[query] and name not in self._labels[query].grades
            ]
            for query, pooled in self._pooled.items()
        }

    @property
    def to_grade(self) -> tuple[list[Query], dict[str, list[Candidate]]]:
        """The requests with tools to grade, and for each its labelled tools and the unseen ones."""
        queries = [query for query in self.queries if self._unseen[query.id]]
        make = partial(Candidate, key="", found_by=("hole",))
        return queries, {
            one.id: [
                make(query=one.id, tool=name)
                for name in (*self._labels[one.id].grades, *self._unseen[one.id])
            ]
            for one in queries
        }

    def measure(self, graded: Mapping[str, Sequence[Label]]) -> HoleFigures:
        """Sum up the grades of the requests of `to_grade`; requests without one are left out."""
        from scipy.stats import kendalltau

        after = group_labels(chain(*graded.values()))
        rows = [
            query.id
            for query in self.queries
            if not self._unseen[query.id]
            or (query.id in after and after[query.id].needed)
        ]
        missing = [
            {
                "query": query,
                "tool": name,
                "grade": "needed" if name in after[query].needed else "alternative",
            }
            for query in rows
            for name in self._unseen[query]
            if name in after[query].grades
        ]
        known = sum(len(self._labels[query].grades) for query in rows)
        unseen = sum(len(self._unseen[query]) for query in rows)
        before = [self._labels[query] for query in rows]
        now = [after.get(query, self._labels[query]) for query in rows]
        recalls = {
            name: {
                "before": _mean_recall([hits[query] for query in rows], before),
                "after": _mean_recall([hits[query] for query in rows], now),
            }
            for name, hits in self._hits.items()
        }
        orders = [[one[k] for one in recalls.values()] for k in ("before", "after")]
        tau = float(kendalltau(*orders).statistic) if rows else float("nan")
        return HoleFigures(
            requests=len(rows),
            not_graded=len(self.queries) - len(rows),
            pooled=sum(len(self._pooled[query]) for query in rows),
            unseen=unseen,
            relevant=measure_share(len(missing), unseen),
            missing=measure_share(len(missing), known + len(missing)),
            incomplete=measure_share(len({m["query"] for m in missing}), len(rows)),
            retrievers=recalls,
            tau=None if np.isnan(tau) else tau,
            order_changes=_rank(orders[0]) != _rank(orders[1]),
            tools=missing,
        )


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
