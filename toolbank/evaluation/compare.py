"""Methods against each other on the same queries: differences with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from toolbank.evaluation.bootstrap import bootstrap_means
from toolbank.evaluation.config import EvaluateConfig, main_k
from toolbank.evaluation.evaluate import Measured, Record, list_metrics

BASELINES = ("first stage", "nearest neighbours", "descriptions", "decomposition")
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
) -> list[Record]:
    """Differences between the methods that were measured on one set, for it and its parts.

    A record has retriever, against, baseline (one of `BASELINES`), set, metric, k, difference (positive where the retriever is better), the
    ends low and high of its 95 % interval, and n. The interval is that of a paired bootstrap:
    the same queries are drawn for both.
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
    records = []
    for name, rows in measured[0].evaluated.selections().items():
        chosen = differences[rows]
        low, high = bootstrap_means(chosen, config.resamples, seed)
        for column, difference, least, most in zip(
            columns, chosen.mean(axis=0), low, high, strict=True
        ):
            retriever, against, baseline, metric, k = column
            records.append(
                {
                    "retriever": retriever,
                    "against": against,
                    "baseline": baseline,
                    "set": name,
                    "metric": metric,
                    "k": k,
                    "difference": float(difference),
                    "low": float(least),
                    "high": float(most),
                    "n": len(rows),
                }
            )
    return records


def _opponents(
    one: Measured,
    by_name: Mapping[str, Measured],
    baselines: Baselines,
    config: EvaluateConfig,
) -> list[tuple[str, str]]:
    """Each kind of baseline of a method, and which it is."""
    found = []
    if one.retriever in baselines.first_stages:
        found.append(("first stage", baselines.first_stages[one.retriever]))
    column = list_metrics(config).index(("recall", main_k(config.ks)))

    def add_best(baseline: str, names: Sequence[str]) -> None:
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
