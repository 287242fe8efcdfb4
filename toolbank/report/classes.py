"""Arrange the classes of the requests: how many there are, and the recall on each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolbank.bank.bank import Bank
from toolbank.bank.profile import AXES, QueryProfile
from toolbank.evaluation import CLASS_PARTS
from toolbank.evaluation.figures import Figure
from toolbank.report.sections import count_splits


@dataclass(frozen=True)
class ClassTable:
    """The classes of an axis: requests of each by split, and recall on the test requests of each.

    `counts` has a row for all requests first.
    """

    axis: str
    names: tuple[str, ...]
    counts: dict[str, dict[str, int]]
    recall: dict[str, list[Figure | None]]


def tabulate_classes(
    bank: Bank,
    figures: Sequence[Figure],
    k: int | None,
) -> list[ClassTable]:
    """Make a table for every axis; none without profiles."""
    queries = [query for query in bank.queries if query.id in bank.classes]
    if not queries:
        return []
    inside = {"all": queries} | {
        split: [query for query in queries if (query.split or "none") == split]
        for split in count_splits(queries)
    }
    counts = {
        name: _count([bank.classes[query.id] for query in part])
        for name, part in inside.items()
    }
    recall = {
        (f.set, f.retriever): f for f in figures if (f.metric, f.k) == ("recall", k)
    }
    retrievers = dict.fromkeys(retriever for _, retriever in recall)
    return [
        ClassTable(
            axis,
            tuple(names.values()),
            {name: of[axis] for name, of in counts.items()},
            {one: [recall.get((part, one)) for part in names] for one in retrievers},
        )
        for axis, names in CLASS_PARTS.items()
    ]


def _count(profiles: Sequence[QueryProfile]) -> dict[str, dict[str, int]]:
    """Count requests by the classes of each axis."""
    return {
        axis: {
            name: sum(getattr(one, axis) == name for one in profiles) for name in names
        }
        for axis, names in AXES.items()
    }
