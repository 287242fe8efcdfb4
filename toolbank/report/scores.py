"""The evaluation's records, arranged as panels and tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Record = dict[str, Any]

_SETS = {
    "test": "Held-out requests",
    "test-seen-sets": "Held-out, set of tools seen in training",
    "test-unseen-sets": "Held-out, set of tools new",
    "test-seen-tools": "Held-out, all tools seen in training",
    "test-unseen-tools": "Held-out, needs a tool new to training",
}
_BASELINES = {
    "first stage": "its first stage",
    "nearest neighbours": "nearest neighbours",
    "descriptions": "descriptions",
    "decomposition": "decomposition",
}
_METRICS = {"recall": "Recall", "ndcg": "nDCG", "comp": "COMP", "mrr": "MRR"}


@dataclass(frozen=True)
class Score:
    """A figure with its 95 % interval; `best` of its column in its set."""

    value: float | None
    low: float | None
    high: float | None
    best: bool


@dataclass(frozen=True)
class ScoreTable:
    """One evaluation set: a row a retriever, a column a metric; `n` queries."""

    name: str
    title: str
    n: int
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Score | None, ...]], ...]

    @property
    def is_part(self) -> bool:
        """Whether it is a part of the test split."""
        return self.name.startswith("test-")

    def column(self, name: str) -> list[tuple[str, Score | None]]:
        """One column as (retriever, score); empty where the set has no such column."""
        if name not in self.columns:
            return []
        position = self.columns.index(name)
        return [(retriever, scores[position]) for retriever, scores in self.rows]


@dataclass(frozen=True)
class Difference:
    """How much better one retriever is than another, with the ends of its 95 % interval."""

    against: str
    value: float
    low: float
    high: float

    @property
    def is_sure(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class DifferenceTable:
    """One evaluation set: a row a retriever, a column what it is held against."""

    title: str
    n: int
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Difference | None, ...]], ...]


def tabulate_differences(
    records: Sequence[Record], k: int | None
) -> list[DifferenceTable]:
    """A table of differences in Recall@k for every set, in the order of the records."""
    usable = [r for r in records if (r["metric"], r["k"]) == ("recall", k)]
    tables = []
    for name in _unique(record["set"] for record in usable):
        rows = [record for record in usable if record["set"] == name]
        found = {
            (r["retriever"], r["baseline"]): Difference(
                r["against"], r["difference"], r["low"], r["high"]
            )
            for r in rows
        }
        baselines = [
            part for part in _BASELINES if any(r["baseline"] == part for r in rows)
        ]
        tables.append(
            DifferenceTable(
                title=_title(name),
                n=int(rows[0]["n"]),
                columns=tuple(_BASELINES[part] for part in baselines),
                rows=tuple(
                    (name, tuple(found.get((name, part)) for part in baselines))
                    for name in _unique(record["retriever"] for record in rows)
                ),
            )
        )
    return tables


def tabulate(records: Sequence[Record], metrics: Iterable[str]) -> list[ScoreTable]:
    """A table for every evaluation set, in the order of the records."""
    wanted = set(metrics)
    usable = [record for record in records if record["metric"] in wanted]
    tables = []
    for name in _unique(record["set"] for record in usable):
        rows = [record for record in usable if record["set"] == name]
        tables.append(_tabulate_set(str(name), rows))
    return tables


def headline_k(records: Sequence[Record]) -> int | None:
    """The cut-off that stands for the others: 5, or else the middle one."""
    ks = sorted({r["k"] for r in records if r["metric"] == "recall" and r["k"]})
    if not ks:
        return None
    return 5 if 5 in ks else int(ks[len(ks) // 2])


def widest(tables: Sequence[ScoreTable], column: str) -> float:
    """Where the axis of a column ends so that every interval fits: 0.25, 0.5, 0.75 or 1."""
    ends = [
        score.value if score.high is None else score.high
        for table in tables
        for _, score in table.column(column)
        if score is not None and score.value is not None
    ]
    return min(1.0, math.ceil(4 * max(ends, default=1.0)) / 4 or 0.25)


def best_score(table: ScoreTable, column: str) -> tuple[str, Score] | None:
    """The best retriever of a column, the first of equals."""
    for retriever, score in table.column(column):
        if score is not None and score.best:
            return retriever, score
    return None


def _tabulate_set(name: str, records: list[Record]) -> ScoreTable:
    columns = _unique((record["metric"], record["k"]) for record in records)
    found = {(r["retriever"], r["metric"], r["k"]): r for r in records}
    best = {}
    for column in columns:
        values = [
            record["value"]
            for record in records
            if (record["metric"], record["k"]) == column and record["value"] is not None
        ]
        best[column] = max(values, default=None)
    rows = []
    for retriever in _unique(record["retriever"] for record in records):
        scores = []
        for column in columns:
            record = found.get((retriever, *column))
            scores.append(_score(record, best[column]) if record else None)
        rows.append((str(retriever), tuple(scores)))
    return ScoreTable(
        name=name,
        title=_title(name),
        n=max(int(record["n"]) for record in records),
        columns=tuple(_column_name(metric, k) for metric, k in columns),
        rows=tuple(rows),
    )


def _score(record: Record, best: float | None) -> Score:
    value = record["value"]
    return Score(
        value, record["low"], record["high"], value is not None and value == best
    )


def _column_name(metric: str, k: int | None) -> str:
    name = _METRICS.get(metric, metric)
    return name if k is None else f"{name}@{k}"


def _title(name: str) -> str:
    return _SETS.get(name, f"Labelled file: {name}")


def _unique(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))
