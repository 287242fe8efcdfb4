"""Arrange the figures of the evaluation as tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from toolbank.evaluation import TEST_PARTS, VERIFIED
from toolbank.evaluation.figures import Difference, Figure, Opponent

T = TypeVar("T")

_SETS = {
    "test": "Held-out requests",
    "test-seen-sets": "Held-out, set of tools seen in training",
    "test-unseen-sets": "Held-out, set of tools new",
    "test-seen-tools": "Held-out, all tools seen in training",
    "test-unseen-tools": "Held-out, needs a tool new to training",
    VERIFIED: "Held-out, verified labels",
}
_OPPONENTS: dict[Opponent, str] = {
    "first stage": "its first stage",
    "nearest neighbours": "nearest neighbours",
    "descriptions": "descriptions",
    "decomposition": "decomposition",
}
_METRICS = {
    "recall": "Recall@{}",
    "recall_or_twin": "Recall@{} or twin",
    "ndcg": "nDCG@{}",
    "comp": "COMP@{}",
    "mrr": "MRR",
}


@dataclass(frozen=True)
class Score:
    """A figure with its 95 % interval; `best` if it is the best of its column."""

    value: float | None
    low: float | None
    high: float | None
    best: bool


@dataclass(frozen=True)
class ScoreTable:
    """An evaluation set of `n` queries: a row per retriever, a column per metric."""

    name: str
    title: str
    n: int
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Score | None, ...]], ...]

    @property
    def is_part(self) -> bool:
        """Whether the set is a part of the test split."""
        return self.name in TEST_PARTS

    def column(self, name: str) -> list[tuple[str, Score | None]]:
        """Get a column as (retriever, score); empty if the set has no such column."""
        if name not in self.columns:
            return []
        position = self.columns.index(name)
        return [(retriever, scores[position]) for retriever, scores in self.rows]


@dataclass(frozen=True)
class DifferenceTable:
    """An evaluation set: a row per retriever, a column per opponent."""

    title: str
    n: int
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Difference | None, ...]], ...]


def tabulate_differences(
    differences: Sequence[Difference], k: int | None
) -> list[DifferenceTable]:
    """A table of differences in Recall@k for every set, in their order."""
    usable = [one for one in differences if (one.metric, one.k) == ("recall", k)]
    tables = []
    for name in _unique(one.set for one in usable):
        rows = [one for one in usable if one.set == name]
        found = {(one.retriever, one.baseline): one for one in rows}
        baselines = [
            part for part in _OPPONENTS if any(one.baseline == part for one in rows)
        ]
        tables.append(
            DifferenceTable(
                title=title_of(name),
                n=rows[0].n,
                columns=tuple(_OPPONENTS[part] for part in baselines),
                rows=tuple(
                    (name, tuple(found.get((name, part)) for part in baselines))
                    for name in _unique(one.retriever for one in rows)
                ),
            )
        )
    return tables


def tabulate(figures: Sequence[Figure], metrics: Iterable[str]) -> list[ScoreTable]:
    """Make a table for every evaluation set, in the order of the figures."""
    wanted = set(metrics)
    usable = [figure for figure in figures if figure.metric in wanted]
    return [
        _tabulate_set(name, [figure for figure in usable if figure.set == name])
        for name in _unique(figure.set for figure in usable)
    ]


def widest(tables: Sequence[ScoreTable], column: str) -> float:
    """Find the end of the axis of a column that fits all intervals: 0.25, 0.5, 0.75 or 1."""
    ends = [
        score.value if score.high is None else score.high
        for table in tables
        for _, score in table.column(column)
        if score is not None and score.value is not None
    ]
    return min(1.0, math.ceil(4 * max(ends, default=1.0)) / 4 or 0.25)


def best_score(table: ScoreTable, column: str) -> tuple[str, Score] | None:
    """Find the best retriever of a column, the first of equals."""
    scores = ((retriever, one) for retriever, one in table.column(column) if one)
    return next((pair for pair in scores if pair[1].best), None)


def _tabulate_set(name: str, figures: list[Figure]) -> ScoreTable:
    columns = _unique((one.metric, one.k) for one in figures)
    best = {
        column: max(
            (
                one.value
                for one in figures
                if (one.metric, one.k) == column and one.value
            ),
            default=0.0,
        )
        for column in columns
    }
    scores = {
        (one.retriever, one.metric, one.k): Score(
            one.value, one.low, one.high, one.value == best[one.metric, one.k]
        )
        for one in figures
    }
    return ScoreTable(
        name=name,
        title=title_of(name),
        n=max(one.n for one in figures),
        columns=tuple(_METRICS[metric].format(k) for metric, k in columns),
        rows=tuple(
            (retriever, tuple(scores.get((retriever, *column)) for column in columns))
            for retriever in _unique(one.retriever for one in figures)
        ),
    )


def title_of(name: str) -> str:
    """Return the title of an evaluation set on the page."""
    return _SETS.get(name, f"Labelled file: {name}")


def _unique(values: Iterable[T]) -> list[T]:
    return list(dict.fromkeys(values))
