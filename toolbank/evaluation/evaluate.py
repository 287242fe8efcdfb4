"""Retrievers against labelled queries: records of metrics with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from toolbank.errors import InputError
from toolbank.evaluation.bootstrap import bootstrap_means
from toolbank.evaluation.config import EvaluateConfig
from toolbank.evaluation.metrics import Values, comp, find_gold, mrr, ndcg, recall
from toolbank.evaluation.sets import EvaluationSet
from toolbank.retrievers.protocol import Retriever

MRR_DEPTH = 100
"""Ranks that are searched for the first hit; beyond them the reciprocal rank counts as 0."""

Record = dict[str, Any]


def evaluate_retriever(
    retriever: Retriever,
    sets: Sequence[EvaluationSet],
    config: EvaluateConfig,
    seed: int,
) -> list[Record]:
    """Search for every query of every set, and measure.

    A record has retriever, set, metric (recall, ndcg, comp, mrr), k (None for mrr), value from
    0 to 1, the ends low and high of its 95 % bootstrap interval, and n, the number of queries.
    An empty set has n = 0 and None for value, low and high.

    Raises:
        InputError: the retriever was fitted on other tools than the sets are labelled with.
    """
    records = []
    for evaluated in sets:
        if retriever.tools != evaluated.tools:
            raise InputError(
                f"{retriever.name} was fitted on {len(retriever.tools)} tools that are not "
                f"the bank's {len(evaluated.tools)}. Fit it again: toolbank train RUN."
            )
        metrics = _metrics(config)
        if evaluated.queries:
            values = _measure(retriever, evaluated, config)
            low, high = bootstrap_means(values, config.resamples, seed)
            figures = zip(
                values.mean(axis=0).tolist(), low.tolist(), high.tolist(), strict=True
            )
        else:
            figures = zip(*[[None] * len(metrics)] * 3, strict=True)
        records += [
            {
                "retriever": retriever.name,
                "set": evaluated.name,
                "metric": metric,
                "k": k,
                "value": value,
                "low": low,
                "high": high,
                "n": len(evaluated.queries),
            }
            for (metric, k), (value, low, high) in zip(metrics, figures, strict=True)
        ]
    return records


def _metrics(config: EvaluateConfig) -> list[tuple[str, int | None]]:
    at_k: list[tuple[str, int | None]] = [
        (metric, k) for metric in ("recall", "ndcg", "comp") for k in config.ks
    ]
    return [*at_k, ("mrr", None)]


def _measure(
    retriever: Retriever, evaluated: EvaluationSet, config: EvaluateConfig
) -> Values:
    """Every metric of every query: [n_queries, n_metrics], in the order of `_metrics`."""
    depth = max(*config.ks, MRR_DEPTH)
    hits, _ = retriever.search(evaluated.queries, depth)
    found = find_gold(hits, evaluated.padded_gold())
    n_gold = np.array([len(tools) for tools in evaluated.gold], dtype=np.int64)
    columns = [
        metric(found, n_gold, k) for metric in (recall, ndcg, comp) for k in config.ks
    ]
    return np.stack([*columns, mrr(found[:, :MRR_DEPTH])], axis=1)
