"""Retrievers against labelled queries: records of metrics with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolbank.evaluation.bootstrap import bootstrap_means
from toolbank.evaluation.config import EvaluateConfig
from toolbank.evaluation.sets import EvaluationSet
from toolbank.ranking.metrics import Values, comp, find_gold, mrr, ndcg, recall
from toolbank.retrievers.protocol import Retriever
from toolbank.system.errors import InputError

MRR_DEPTH = 100
"""Ranks that are searched for the first hit; beyond them the reciprocal rank counts as 0."""

Record = dict[str, Any]


@dataclass(frozen=True)
class Measured:
    """What a retriever found for the queries of a set, and how good that is.

    `hits` and `scores` [n_queries, depth] are as of a search; `values` [n_queries, n_metrics]
    is every metric of every query, in the order of `list_metrics`.
    """

    retriever: str
    evaluated: EvaluationSet
    hits: NDArray[np.int64]
    scores: NDArray[np.float32]
    values: Values


def measure(
    retriever: Retriever, evaluated: EvaluationSet, config: EvaluateConfig
) -> Measured:
    """Search for every query of a set, and measure.

    Raises:
        InputError: the retriever was fitted on other tools than the set is labelled with.
    """
    if retriever.tools != evaluated.tools:
        raise InputError(
            f"{retriever.name} was fitted on {len(retriever.tools)} tools that are not "
            f"the bank's {len(evaluated.tools)}. Fit it again: toolbank train RUN."
        )
    depth = max(*config.ks, MRR_DEPTH)
    if not evaluated.queries:
        nothing = np.zeros((0, 0))
        hits, scores = nothing.astype(np.int64), nothing.astype(np.float32)
        values = np.zeros((0, len(list_metrics(config))))
        return Measured(retriever.name, evaluated, hits, scores, values)
    hits, scores = retriever.search(evaluated.queries, depth)
    found = find_gold(hits, evaluated.padded_gold())
    n_gold = np.array([len(tools) for tools in evaluated.gold], dtype=np.int64)
    columns = [
        metric(found, n_gold, k) for metric in (recall, ndcg, comp) for k in config.ks
    ]
    values = np.stack([*columns, mrr(found[:, :MRR_DEPTH])], axis=1)
    return Measured(retriever.name, evaluated, hits, scores, values)


def list_metrics(config: EvaluateConfig) -> list[tuple[str, int | None]]:
    """Each metric with its cut-off; None where it has none."""
    at_k: list[tuple[str, int | None]] = [
        (metric, k) for metric in ("recall", "ndcg", "comp") for k in config.ks
    ]
    return [*at_k, ("mrr", None)]


def make_records(measured: Measured, config: EvaluateConfig, seed: int) -> list[Record]:
    """The figures of a set and of its parts.

    A record has retriever, set, metric (recall, ndcg, comp, mrr), k (None for mrr), value from
    0 to 1, the ends low and high of its 95 % bootstrap interval, and n, the number of queries.
    An empty set has n = 0 and None for value, low and high; an empty part has no record.
    """
    return [
        record
        for name, rows in measured.evaluated.selections().items()
        for record in _summarise(name, measured, measured.values[rows], config, seed)
    ]


def evaluate_retriever(
    retriever: Retriever,
    sets: Sequence[EvaluationSet],
    config: EvaluateConfig,
    seed: int,
) -> list[Record]:
    """The records of a retriever on several sets.

    Raises:
        InputError: the retriever was fitted on other tools than a set is labelled with.
    """
    return [
        record
        for evaluated in sets
        for record in make_records(measure(retriever, evaluated, config), config, seed)
    ]


def _summarise(
    name: str, measured: Measured, values: Values, config: EvaluateConfig, seed: int
) -> list[Record]:
    metrics = list_metrics(config)
    figures: list[tuple[Any, ...]] = [(None, None, None)] * len(metrics)
    if len(values):
        low, high = bootstrap_means(values, config.resamples, seed)
        mean = values.mean(axis=0)
        figures = list(zip(mean.tolist(), low.tolist(), high.tolist(), strict=True))
    return [
        {
            "retriever": measured.retriever,
            "set": name,
            "metric": metric,
            "k": k,
            "value": value,
            "low": low,
            "high": high,
            "n": len(values),
        }
        for (metric, k), (value, low, high) in zip(metrics, figures, strict=True)
    ]
