"""Figures of runs with several settings and seeds, and tests between any two methods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.ranking import Values
from toolbank.evaluation import EvaluateConfig, main_k
from toolbank.evaluation.evaluate import Measured
from toolbank.evaluation.paired import SeedDifference, compare_columns, holm


@dataclass(frozen=True)
class SeedFigure:
    """One metric of a retriever under a setting, on a set.

    `mean` is the mean of the seeds' means, from 0 to 1, and `sd` their standard deviation (with
    seeds - 1), None for one seed. `low` and `high` are the 95 % interval over requests and seeds
    (`compare_columns`). `n` counts the different requests of all seeds.
    """

    setting: str
    retriever: str
    set: str
    metric: str
    k: int | None
    mean: float
    sd: float | None
    low: float | None
    high: float | None
    n: int
    seeds: int


@dataclass(frozen=True)
class PairedTest:
    """The recall at k of a retriever under a setting minus that of another, on the same requests.

    One of setting and retriever is the same for both. `p_holm` is `p` corrected for the `tests` on
    the set (`holm`): pairs with the same differences count once, and a pair without any difference
    does not count. The other fields are those of `SeedDifference`.
    """

    set: str
    metric: str
    k: int | None
    setting: str
    retriever: str
    against_setting: str
    against: str
    difference: float
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None
    tests: int
    n: int
    seeds: int


@dataclass(frozen=True)
class MeasuredRun:
    """The metrics of all retrievers of a run on all sets, and its number of train requests."""

    setting: str
    seed: int
    train: int
    measured: tuple[Measured, ...]


_Method = tuple[str, str]
_Cubes = dict[_Method, NDArray[np.float64]]


def _stack(runs: Sequence[MeasuredRun], name: str) -> _Cubes:
    """Put the values on a set into an array [seeds, n, metrics] for each setting and retriever.

    The n requests are those of all runs; a request that a run lacks has NaN. Requests are the same
    if their texts are, since the ids of two generated banks have nothing to do with each other.
    """
    seeds = list(dict.fromkeys(run.seed for run in runs))
    rows: dict[tuple[str, int], int] = {}
    found: dict[_Method, list[tuple[int, list[int], Values]]] = {}
    for run in runs:
        for one in run.measured:
            if one.evaluated.name != name:
                continue
            seen: Counter[str] = Counter()
            places = []
            for query in one.evaluated.queries:
                places.append(rows.setdefault((query, seen[query]), len(rows)))
                seen[query] += 1
            found.setdefault((run.setting, one.retriever), []).append(
                (seeds.index(run.seed), places, one.values)
            )
    cubes: _Cubes = {}
    for method, parts in found.items():
        cube = np.full((len(seeds), len(rows), parts[0][2].shape[1]), np.nan)
        for seed, places, values in parts:
            cube[seed, places] = values
        cubes[method] = cube
    return cubes


def list_sets(runs: Sequence[MeasuredRun]) -> tuple[list[str], list[str]]:
    """List the sets with a request in every run; returns notes on the others, too."""
    having = Counter(
        name
        for run in runs
        for name in {one.evaluated.name for one in run.measured if len(one.values)}
    )
    found = (one.evaluated.name for run in runs for one in run.measured)
    names = [name for name in dict.fromkeys(found) if having[name]]
    notes = [
        f"{name}: skipped, since only {having[name]:,} of {len(runs):,} runs have requests in it."
        for name in names
        if having[name] < len(runs)
    ]
    common = [name for name in names if having[name] == len(runs)]
    if not common:
        notes.append(
            "There are no figures: no set has test requests in every run. Give the bank a test "
            "split, or list a file of requests in evaluate.on."
        )
    return common, notes


def summarise_seeds(
    runs: Sequence[MeasuredRun], config: EvaluateConfig, seed: int
) -> Iterator[SeedFigure]:
    """Summarise every metric of every retriever and setting on every set."""
    for name in list_sets(runs)[0]:
        metrics = {
            (run.setting, one.retriever): one.metrics(config)
            for run in runs
            for one in run.measured
            if one.evaluated.name == name
        }
        for (setting, retriever), cube in _stack(runs, name).items():
            means = np.nanmean(cube, axis=1)
            spread = means.std(axis=0, ddof=1).tolist() if len(means) > 1 else None
            # As differences from -1 to 1, so that no interval of equal values leaves 0 to 1.
            compared = compare_columns(
                2 * cube - 1, resamples=config.resamples, seed=seed
            )
            pairs = zip(metrics[setting, retriever], compared, strict=True)
            for column, ((metric, k), one) in enumerate(pairs):
                yield SeedFigure(
                    setting,
                    retriever,
                    name,
                    metric,
                    k,
                    mean=float(means[:, column].mean()),
                    sd=None if spread is None else spread[column],
                    low=None if one.low is None else (one.low + 1) / 2,
                    high=None if one.high is None else (one.high + 1) / 2,
                    n=one.n,
                    seeds=one.seeds,
                )


def compare_pairs(
    runs: Sequence[MeasuredRun], config: EvaluateConfig, seed: int
) -> tuple[list[PairedTest], list[str]]:
    """Compare any two retrievers of a setting, and any two settings of a retriever.

    By recall at the main cut-off. Returns the tests, and notes on sets and pairs that cannot be
    compared.
    """
    k = main_k(config.ks)
    tests: list[PairedTest] = []
    names, notes = list_sets(runs)
    for name in names:
        column = next(
            one.metrics(config).index(("recall", k))
            for one in runs[0].measured
            if one.evaluated.name == name
        )
        cubes = {
            method: cube[:, :, column] for method, cube in _stack(runs, name).items()
        }
        pairs = [
            (later, earlier)
            for same in (0, 1)
            for earlier, later in combinations(cubes, 2)
            if earlier[same] == later[same]
        ]
        differences = {(a, b): cubes[a] - cubes[b] for a, b in pairs}
        usable = {
            pair: values
            for pair, values in differences.items()
            if not np.isnan(values).all(axis=1).any()
        }
        if lost := len(differences) - len(usable):
            notes.append(
                f"{name}: {lost:,} of {len(differences):,} pairs have no request in common, so "
                "they are not compared. To compare settings that write other requests, list a "
                "file of requests in evaluate.on."
            )
        if usable:
            columns = np.stack(list(usable.values()), axis=2)
            compared = compare_columns(columns, seed=seed)
            tests += _correct(name, k, usable, compared)
    return tests, notes


def _correct(
    name: str,
    k: int | None,
    pairs: Mapping[tuple[_Method, _Method], NDArray[np.float64]],
    compared: Sequence[SeedDifference],
) -> list[PairedTest]:
    """Make the tests; a retriever that a setting does not change is one method, not several."""
    keys = [values.tobytes() for values in pairs.values()]
    found = {
        key: one.p
        for key, one, values in zip(keys, compared, pairs.values(), strict=True)
        if np.nan_to_num(values).any()
    }
    corrected = dict(zip(found, holm(list(found.values())), strict=True))
    return [
        PairedTest(
            name,
            "recall",
            k,
            *a,
            *b,
            p_holm=corrected.get(key, one.p),
            tests=len(found),
            **vars(one),
        )
        for (a, b), one, key in zip(pairs, compared, keys, strict=True)
    ]
