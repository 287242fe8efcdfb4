"""Evaluate retrievers on labelled queries, and keep their hits."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.ranking import (
    Hits,
    Values,
    comp,
    graded_ndcg,
    match_gold,
    match_places,
    mrr,
    ndcg,
    recall,
    recall_or_twin,
)
from toolbank.config.explain import check
from toolbank.evaluation import EvaluateConfig, main_k
from toolbank.evaluation.figures import (
    Difference,
    Figure,
    Opponent,
    difference_intervals,
    mean_intervals,
)
from toolbank.evaluation.sets import EvaluationSet
from toolbank.retrievers.base import Retriever
from toolbank.retrievers.kind import RetrieverConfig
from toolbank.system.errors import InputError
from toolbank.system.files import iterate_lines, write_text
from toolbank.system.numbers import count
from toolbank.system.terminal import command

MRR_DEPTH = 100
"""Ranks that are searched for the first hit; beyond them the reciprocal rank counts as 0."""


@dataclass(frozen=True)
class Measured:
    """A retriever's hits for the queries of a set, and their metrics.

    `hits` and `scores` [n_queries, depth] are those of a search; `values` [n_queries, n_metrics]
    holds every metric of every query, in the order of `metrics`.
    """

    retriever: str
    evaluated: EvaluationSet
    hits: NDArray[np.int64]
    scores: NDArray[np.float32]
    values: Values

    def metrics(self, config: EvaluateConfig) -> list[tuple[str, int | None]]:
        """List the metrics of its set, as `list_metrics`."""
        return list_metrics(config, twins=self.evaluated.has_twins)


def measure(
    retriever: Retriever,
    evaluated: EvaluationSet,
    config: EvaluateConfig,
    searched: Hits | None = None,
) -> Measured:
    """Search for every query of a set, and compute the metrics; `searched` are known hits.

    Raises:
        InputError: the retriever was fitted on other tools than the set is labelled with.
    """
    if retriever.tools != evaluated.tools:
        raise InputError(
            f"{retriever.name} was fitted on {count(len(retriever.tools), 'tool')}, and the bank "
            f"has {len(evaluated.tools):,} other ones. Fit it again: toolbank train RUN."
        )
    hits = searched or retriever.search(evaluated.queries, search_depth(config))
    return score_hits(retriever.name, evaluated, config, hits)


def score_hits(
    name: str, evaluated: EvaluationSet, config: EvaluateConfig, searched: Hits
) -> Measured:
    """Compute the metrics of the hits that a retriever of this name has for a set's queries."""
    hits, scores = searched
    gold = evaluated.padded_gold()
    found = (
        match_places(hits, evaluated.alternatives)
        if evaluated.alternatives
        else match_gold(hits, gold)
    )
    n_gold = np.array([len(tools) for tools in evaluated.gold], dtype=np.int64)
    columns = [recall(found, n_gold, k) for k in config.ks]
    if evaluated.alternatives:
        grades = evaluated.grades()
        columns += [graded_ndcg(hits, grades, k) for k in config.ks]
    else:
        columns += [ndcg(found, n_gold, k) for k in config.ks]
    columns += [comp(found, n_gold, k) for k in config.ks]
    columns.append(mrr(found[:, :MRR_DEPTH]))
    if evaluated.has_twins:
        twins = np.array(evaluated.first_twins, dtype=np.int64)
        columns += [recall_or_twin(hits, gold, twins, k) for k in config.ks]
    values = np.stack(columns, axis=1)
    return Measured(name, evaluated, hits, scores, values)


def search_depth(config: EvaluateConfig) -> int:
    """Return how many hits per query the metrics need."""
    return max(*config.ks, MRR_DEPTH)


def list_metrics(
    config: EvaluateConfig, *, twins: bool
) -> list[tuple[str, int | None]]:
    """List each metric with its cut-off, or None; with `twins`, also those that count twins."""
    at_k: list[tuple[str, int | None]] = [
        (metric, k) for metric in ("recall", "ndcg", "comp") for k in config.ks
    ]
    or_twin = [("recall_or_twin", k) for k in config.ks] if twins else []
    return [*at_k, ("mrr", None), *or_twin]


def make_figures(measured: Measured, config: EvaluateConfig, seed: int) -> list[Figure]:
    """Compute the figures of a set and of its non-empty parts."""
    return [
        figure
        for name, rows in measured.evaluated.selections().items()
        for figure in _summarise(name, measured, measured.values[rows], config, seed)
    ]


def _summarise(
    name: str, measured: Measured, values: Values, config: EvaluateConfig, seed: int
) -> list[Figure]:
    metrics = measured.metrics(config)
    n = len(values)
    means = values.mean(axis=0).tolist() if n else [None] * len(metrics)
    intervals = mean_intervals(values, config.resamples, seed)
    return [
        Figure(measured.retriever, name, metric, k, mean, low, high, n)
        for (metric, k), mean, (low, high) in zip(
            metrics, means, intervals, strict=True
        )
    ]


@dataclass(frozen=True)
class Found:
    """One query and its top hits: a line of a retriever's file of hits."""

    set: str
    id: str
    query: str
    tools: tuple[str, ...]
    hits: tuple[str, ...]

    @property
    def recall(self) -> float:
        """The share of the needed tools that are among the hits."""
        return 1 - len(self.missed) / len(self.tools)

    @property
    def missed(self) -> tuple[str, ...]:
        """The needed tools that are not among the hits."""
        return tuple(tool for tool in self.tools if tool not in self.hits)


def write_hits(path: Path, measured: Sequence[Measured]) -> None:
    """Write one retriever's hits on all sets, one line per query.

    A line has `set`, `parts` (of the set), `id`, `query`, `tools` (the needed ones), `hits` (best
    first) and `scores`, which are rounded and may be equal.
    """
    lines = (line for one in measured for line in _lines(one))
    write_text(path, "".join(lines))


def read_hits(path: Path, k: int) -> list[Found]:
    """Read what `write_hits` wrote, with the top k hits of each query.

    Raises:
        InputError: the file is missing or damaged.
    """
    rows = check(list(iterate_hits(path)), list[Found], path)
    return [replace(one, hits=one.hits[:k]) for one in rows]


def read_measured(
    path: Path, sets: Sequence[EvaluationSet], config: EvaluateConfig
) -> list[Measured]:
    """Read a retriever's hits on these sets again, and compute the metrics.

    Raises:
        InputError: the file is missing, damaged, or not of these sets.
    """
    lines = list(iterate_hits(path))
    index = {name: place for place, name in enumerate(sets[0].tools)}
    measured = []
    for one in sets:
        rows = [row for row in lines if row["set"] == one.name]
        if tuple(row["query"] for row in rows) != one.queries:
            raise InputError(
                f"{path}: not the requests of {one.name}. Evaluate the run again: "
                f"{command('run', path.parent.parent)} --from evaluate"
            )
        depth = max((len(row["hits"]) for row in rows), default=0)
        hits = np.full((len(rows), max(depth, search_depth(config))), -1, np.int64)
        scores = np.full(hits.shape, -np.inf, np.float32)
        for place, row in enumerate(rows):
            n_found = len(row["hits"])
            hits[place, :n_found] = [index[name] for name in row["hits"]]
            scores[place, :n_found] = row["scores"]
        measured.append(score_hits(path.stem, one, config, (hits, scores)))
    return measured


def iterate_hits(path: Path) -> Iterator[dict[str, Any]]:
    """Read the lines of a file that `write_hits` wrote.

    Raises:
        InputError: the file is missing or damaged.
    """
    return iterate_lines(path, lambda row, _: row)


def _lines(measured: Measured) -> Iterator[str]:
    evaluated = measured.evaluated
    parts: list[list[str]] = [[] for _ in evaluated.queries]
    for name, rows in evaluated.parts.items():
        for row in rows:
            parts[row].append(name)
    for position, name in enumerate(evaluated.ids):
        n_found = int((measured.hits[position] >= 0).sum())
        scores = measured.scores[position][:n_found]
        row = {
            "set": evaluated.name,
            "parts": parts[position],
            "id": name,
            "query": evaluated.queries[position],
            "tools": evaluated.labels[position],
            "hits": [evaluated.tools[i] for i in measured.hits[position][:n_found]],
            "scores": [float(f"{score:.6g}") for score in scores],
        }
        yield json.dumps(row, ensure_ascii=False) + "\n"


OPPONENTS: tuple[Opponent, ...] = get_args(Opponent)
"""The kinds of baselines, in the order of tables."""


def compare(
    measured: Sequence[Measured],
    retrievers: Sequence[RetrieverConfig],
    config: EvaluateConfig,
    seed: int,
) -> list[Difference]:
    """Compare the methods that were measured on one set, for the set and its parts.

    The baselines of a method are its first stage; the best of the nearest-neighbour methods; the
    first method without queries; and, for a method that plans, the best that splits requests. The
    intervals are paired: they are those of the differences, query by query.
    """
    if not measured or not len(measured[0].values):
        return []
    pairs = list(_pair_up(measured, retrievers, config))
    if not pairs:
        return []
    differences = np.concatenate(
        [one.values - against.values for one, against, _ in pairs], axis=1
    )
    columns = [
        partial(Difference, one.retriever, against.retriever, baseline, metric=m, k=k)
        for one, against, baseline in pairs
        for m, k in one.metrics(config)
    ]
    found = []
    for name, rows in measured[0].evaluated.selections().items():
        means = differences[rows].mean(axis=0).tolist()
        intervals = difference_intervals(differences[rows], config.resamples, seed)
        found += [
            make(set=name, difference=mean, low=low, high=high, n=len(rows))
            for make, mean, (low, high) in zip(columns, means, intervals, strict=True)
        ]
    return found


def _pair_up(
    measured: Sequence[Measured],
    retrievers: Sequence[RetrieverConfig],
    config: EvaluateConfig,
) -> Iterator[tuple[Measured, Measured, Opponent]]:
    """Pair each method with each of its baselines."""
    by_name = {one.retriever: one for one in measured}
    column = measured[0].metrics(config).index(("recall", main_k(config.ks)))

    def labels(baseline: Opponent) -> list[str]:
        return [one.label for one in retrievers if one.baseline == baseline]

    for retriever in retrievers:
        opponents: dict[Opponent, Sequence[str]] = {
            "first stage": retriever.needs[:1],
            "nearest neighbours": labels("nearest neighbours"),
            "descriptions": labels("descriptions")[:1],
            "decomposition": labels("decomposition") if retriever.needs_order else (),
        }
        for baseline, names in opponents.items():
            there = [by_name[name] for name in names if name in by_name]
            best = max(
                there, key=lambda one: one.values[:, column].mean(), default=None
            )
            one = by_name.get(retriever.label)
            if one and best and best is not one:
                yield one, best, baseline
