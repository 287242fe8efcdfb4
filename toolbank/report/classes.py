"""Arrange the classes of the requests: how many there are, and the recall on each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from toolbank.bank.bank import Bank
from toolbank.evaluation import CLASS_PARTS
from toolbank.evaluation.figures import Figure
from toolbank.report.sections import count_splits


@dataclass(frozen=True)
class ClassTable:
    """The classes of an axis: requests of each by split, and recall on the test requests of each.

    `counts` has a row for all requests first. `evaluated` counts the test requests of each class
    that `recall` is of.
    """

    axis: str
    names: tuple[str, ...]
    counts: dict[str, dict[str, int]]
    evaluated: list[int]
    recall: dict[str, list[Figure | None]]


def tabulate_classes(
    bank: Bank, figures: Sequence[Figure], k: int | None
) -> list[ClassTable]:
    """Make a table for every axis; none without profiles."""
    queries = [query for query in bank.queries if query.id in bank.classes]
    if not queries:
        return []
    counts = Counter(
        (split, axis, name)
        for query in queries
        for split in ("all", query.split or "none")
        for axis, name in bank.classes[query.id].classes().items()
    )
    sizes = {figure.set: figure.n for figure in figures}
    recall = {
        (f.set, f.retriever): f for f in figures if (f.metric, f.k) == ("recall", k)
    }
    retrievers = dict.fromkeys(retriever for _, retriever in recall)
    return [
        ClassTable(
            axis,
            tuple(names.values()),
            {
                split: {name: counts[split, axis, name] for name in names.values()}
                for split in ("all", *count_splits(queries))
            },
            [sizes.get(part, 0) for part in names],
            {one: [recall.get((part, one)) for part in names] for one in retrievers},
        )
        for axis, names in CLASS_PARTS.items()
    ]
