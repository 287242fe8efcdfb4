"""Methods against each other on the same queries: differences with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

import numpy as np

from toolbank.evaluation.config import EvaluateConfig, main_k
from toolbank.evaluation.evaluate import Measured
from toolbank.evaluation.figures import Difference, Opponent
from toolbank.evaluation.interval import difference_intervals
from toolbank.retrievers.kind import RetrieverConfig

OPPONENTS: tuple[Opponent, ...] = get_args(Opponent)
"""The kinds of baselines, in the order of tables."""


def compare(
    measured: Sequence[Measured],
    retrievers: Sequence[RetrieverConfig],
    config: EvaluateConfig,
    seed: int,
) -> list[Difference]:
    """Differences between the methods that were measured on one set, for it and its parts.

    Each is held against what it builds on; the best on this set of those that vote among similar
    train queries; the first that has seen no query; and, where it finds a request's tools one
    after another, the best of those that search for its parts. The intervals are paired: they are
    those of the differences, query by query.
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
        (one.retriever, against.retriever, baseline, metric, k)
        for one, against, baseline in pairs
        for metric, k in one.metrics(config)
    ]
    found = []
    for name, rows in measured[0].evaluated.selections().items():
        chosen = differences[rows]
        means = chosen.mean(axis=0).tolist()
        intervals = difference_intervals(chosen, config.resamples, seed)
        for (retriever, against, baseline, metric, k), mean, interval in zip(
            columns, means, intervals, strict=True
        ):
            found.append(
                Difference(
                    *(retriever, against, baseline),
                    *(name, metric, k),
                    *(mean, *interval, len(rows)),
                )
            )
    return found


def _pair_up(
    measured: Sequence[Measured],
    retrievers: Sequence[RetrieverConfig],
    config: EvaluateConfig,
) -> Iterator[tuple[Measured, Measured, Opponent]]:
    """Each method with each that it is held against, and what kind of baseline that is."""
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
