"""Retrievers against labelled queries: metrics with intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.ranking import (
    Hits,
    Values,
    comp,
    find_filled,
    find_gold,
    mrr,
    ndcg,
    recall,
    recall_or_twin,
)
from toolbank.evaluation.config import EvaluateConfig
from toolbank.evaluation.figures import Figure
from toolbank.evaluation.interval import mean_intervals
from toolbank.evaluation.sets import EvaluationSet
from toolbank.retrievers.base import Retriever
from toolbank.system.errors import InputError
from toolbank.system.numbers import count

MRR_DEPTH = 100
"""Ranks that are searched for the first hit; beyond them the reciprocal rank counts as 0."""


@dataclass(frozen=True)
class Measured:
    """What a retriever found for the queries of a set, and how good that is.

    `hits` and `scores` [n_queries, depth] are as of a search; `values` [n_queries, n_metrics]
    is every metric of every query, in the order of `metrics`.
    """

    retriever: str
    evaluated: EvaluationSet
    hits: NDArray[np.int64]
    scores: NDArray[np.float32]
    values: Values

    def metrics(self, config: EvaluateConfig) -> list[tuple[str, int | None]]:
        """As of `list_metrics`, for its set."""
        return list_metrics(config, twins=self.evaluated.has_twins)


def measure(
    retriever: Retriever,
    evaluated: EvaluationSet,
    config: EvaluateConfig,
    searched: Hits | None = None,
) -> Measured:
    """Search for every query of a set, and measure; `searched` are its hits where that was done.

    Raises:
        InputError: the retriever was fitted on other tools than the set is labelled with.
    """
    if retriever.tools != evaluated.tools:
        raise InputError(
            f"{retriever.name} was fitted on {count(len(retriever.tools), 'tool')}, and the bank "
            f"has other ones, {len(evaluated.tools):,} of them. Fit it again: toolbank train RUN."
        )
    if not evaluated.queries:
        nothing = np.zeros((0, 0))
        hits, scores = nothing.astype(np.int64), nothing.astype(np.float32)
        n_metrics = len(list_metrics(config, twins=evaluated.has_twins))
        values = np.zeros((0, n_metrics))
        return Measured(retriever.name, evaluated, hits, scores, values)
    hits, scores = searched or retriever.search(evaluated.queries, search_depth(config))
    gold = evaluated.padded_gold()
    found = (
        find_filled(hits, evaluated.alternatives)
        if evaluated.alternatives
        else find_gold(hits, gold)
    )
    n_gold = np.array([len(tools) for tools in evaluated.gold], dtype=np.int64)
    columns = [
        metric(found, n_gold, k) for metric in (recall, ndcg, comp) for k in config.ks
    ]
    columns.append(mrr(found[:, :MRR_DEPTH]))
    if evaluated.has_twins:
        twins = np.array(evaluated.first_twins, dtype=np.int64)
        columns += [recall_or_twin(hits, gold, twins, k) for k in config.ks]
    values = np.stack(columns, axis=1)
    return Measured(retriever.name, evaluated, hits, scores, values)


def search_depth(config: EvaluateConfig) -> int:
    """How many hits of a query the metrics look at."""
    return max(*config.ks, MRR_DEPTH)


def list_metrics(
    config: EvaluateConfig, *, twins: bool
) -> list[tuple[str, int | None]]:
    """Each metric with its cut-off; None where it has none. With `twins`, those that ask for them."""
    at_k: list[tuple[str, int | None]] = [
        (metric, k) for metric in ("recall", "ndcg", "comp") for k in config.ks
    ]
    or_twin = [("recall_or_twin", k) for k in config.ks] if twins else []
    return [*at_k, ("mrr", None), *or_twin]


def make_figures(measured: Measured, config: EvaluateConfig, seed: int) -> list[Figure]:
    """The figures of a set and of its parts; an empty part has none."""
    return [
        figure
        for name, rows in measured.evaluated.selections().items()
        for figure in _summarise(name, measured, measured.values[rows], config, seed)
    ]


def _summarise(
    name: str, measured: Measured, values: Values, config: EvaluateConfig, seed: int
) -> list[Figure]:
    metrics = measured.metrics(config)
    means: list[tuple[float | None, float | None, float | None]]
    means = [(None, None, None)] * len(metrics)
    if len(values):
        intervals = mean_intervals(values, config.resamples, seed)
        means = [
            (mean, *interval)
            for mean, interval in zip(
                values.mean(axis=0).tolist(), intervals, strict=True
            )
        ]
    return [
        Figure(measured.retriever, name, metric, k, *mean, n=len(values))
        for (metric, k), mean in zip(metrics, means, strict=True)
    ]
