"""Methods against each other on the same queries: differences with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

import numpy as np

from toolbank.evaluation.bootstrap import bootstrap_means
from toolbank.evaluation.config import EvaluateConfig, main_k
from toolbank.evaluation.evaluate import Measured, list_metrics
from toolbank.evaluation.figures import Baseline, Difference

BASELINES: tuple[Baseline, ...] = get_args(Baseline)
"""The kinds of baselines, in the order of tables."""


@dataclass(frozen=True)
class Baselines:
    """What every method is compared with, by labels.

    `first_stages` are the retrievers that methods build on; `nearest` all that vote among
    similar train queries, of which the best on a set counts there; `descriptions` the one that
    has seen no query; `decompositions` those that search for a request's parts, of which the best
    on a set counts there for the `planners`, which find its tools one after another.
    """

    first_stages: Mapping[str, str] = field(default_factory=dict)
    nearest: tuple[str, ...] = ()
    descriptions: str | None = None
    decompositions: tuple[str, ...] = ()
    planners: tuple[str, ...] = ()


def compare(
    measured: Sequence[Measured],
    baselines: Baselines,
    config: EvaluateConfig,
    seed: int,
) -> list[Difference]:
    """Differences between the methods that were measured on one set, for it and its parts.

    The intervals are those of a paired bootstrap: the same queries are drawn for both.
    """
    if not measured or not len(measured[0].values):
        return []
    by_name = {one.retriever: one for one in measured}
    pairs = [
        (one, by_name[against], baseline)
        for one in measured
        for baseline, against in _opponents(one, by_name, baselines, config)
        if against in by_name and against != one.retriever
    ]
    if not pairs:
        return []
    differences = np.concatenate(
        [one.values - against.values for one, against, _ in pairs], axis=1
    )
    columns = [
        (one.retriever, against.retriever, baseline, metric, k)
        for one, against, baseline in pairs
        for metric, k in list_metrics(config)
    ]
    found = []
    for name, rows in measured[0].evaluated.selections().items():
        chosen = differences[rows]
        low, high = bootstrap_means(chosen, config.resamples, seed)
        means = zip(
            chosen.mean(axis=0).tolist(), low.tolist(), high.tolist(), strict=True
        )
        for (retriever, against, baseline, metric, k), mean in zip(
            columns, means, strict=True
        ):
            found.append(
                Difference(
                    *(retriever, against, baseline),
                    *(name, metric, k),
                    *mean,
                    n=len(rows),
                )
            )
    return found


def _opponents(
    one: Measured,
    by_name: Mapping[str, Measured],
    baselines: Baselines,
    config: EvaluateConfig,
) -> list[tuple[Baseline, str]]:
    """Each kind of baseline of a method, and which it is."""
    found: list[tuple[Baseline, str]] = []
    if one.retriever in baselines.first_stages:
        found.append(("first stage", baselines.first_stages[one.retriever]))
    column = list_metrics(config).index(("recall", main_k(config.ks)))

    def add_best(baseline: Baseline, names: Sequence[str]) -> None:
        there = [name for name in names if name in by_name]
        if there:
            best = max(there, key=lambda name: by_name[name].values[:, column].mean())
            found.append((baseline, best))

    add_best("nearest neighbours", baselines.nearest)
    if baselines.descriptions is not None:
        found.append(("descriptions", baselines.descriptions))
    if one.retriever in baselines.planners:
        add_best("decomposition", baselines.decompositions)
    return found
