"""Gates: figures against thresholds, and against those of an earlier evaluation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from toolbank.evaluation import EvaluateConfig
from toolbank.evaluation.evaluate import Found, Measured, score_hits, search_depth
from toolbank.evaluation.figures import FEWEST, Figure, bootstrap_means
from toolbank.system.errors import InputError
from toolbank.system.numbers import count

Metric = tuple[str, int | None]
"""The name of a metric, and its cut-off or None."""


@dataclass(frozen=True)
class Threshold:
    """The least value that passes, from 0 to 1; without a `set`, that of each gated set."""

    set: str
    metric: Metric
    minimum: float


TOLERANCE = 0.005
"""The loss that is tolerated by default.

The paired interval allows for other requests, not for another training seed. Of a retriever trained
with 21 seeds, recall@5 had a standard deviation of 0.0023 on 2,055 requests: without a tolerance, 17
of the 420 ordered pairs failed, and 3 of 20 against a lucky first seed; with this one, none.
"""

_THRESHOLD = re.compile(
    r"(?:(?P<set>.+):)?(?P<name>[a-z_]+)(?:@(?P<k>[1-9]\d{0,5}))?=(?P<value>\d*\.?\d+)"
)


def parse_threshold(text: str) -> Threshold:
    """Parse a threshold such as "recall@5=0.80" or "natural:mrr=0.5".

    Raises:
        InputError: it has another form, or its value is above 1.
    """
    parts = _THRESHOLD.fullmatch(text.strip())
    if parts is None or float(parts["value"]) > 1:
        raise InputError(
            f"--min: {text!r} is no threshold. Write METRIC@K=VALUE with a value from 0 to 1, "
            "such as recall@5=0.80, or SET:METRIC@K=VALUE for one set."
        )
    k = int(parts["k"]) if parts["k"] else None
    return Threshold(parts["set"] or "", (parts["name"], k), float(parts["value"]))


def metric_name(metric: Metric) -> str:
    """Write a metric such as "recall@5" or "mrr"."""
    name, k = metric
    return name if k is None else f"{name}@{k}"


@dataclass(frozen=True)
class MinimumCheck:
    """Whether a figure reaches a threshold. Its value counts, whatever its interval."""

    kind: ClassVar[Literal["min", "against"]] = "min"

    figure: Figure
    minimum: float

    @property
    def passed(self) -> bool:
        """Whether the value is at least the threshold."""
        # A mean of thirds may be a rounding error below the threshold that it is.
        return self.figure.value is not None and (
            self.figure.value >= self.minimum - 1e-9
        )

    @property
    def condition(self) -> str:
        """What has to hold, such as "recall@5 >= 0.8"."""
        return f"{_metric_of(self.figure)} >= {self.minimum:g}"

    def describe(self) -> str:
        """Name the figure, the threshold, the interval and n."""
        figure = self.figure
        verb = "reaches" if self.passed else "is below"
        return (
            f"{_metric_of(figure)} of {figure.retriever} on {figure.set} {verb} "
            f"{self.minimum:g}: {figure.value:.3f} "
            f"({_describe_interval(figure.low, figure.high)}n = {figure.n:,})"
        )


@dataclass(frozen=True)
class AgainstCheck:
    """Whether a figure is not below that of an earlier evaluation of the same queries.

    `before` and `after` are means over the `n` queries that both evaluations have; `low` and `high`
    are the ends of the paired 95 % interval of their difference (percentile bootstrap).
    """

    kind: ClassVar[Literal["min", "against"]] = "against"

    figure: Figure
    against: str
    before: float
    after: float
    low: float
    high: float
    n: int
    tolerance: float

    @property
    def passed(self) -> bool:
        """Whether the interval includes a difference of no more than the tolerated loss.

        A figure that has become 0 fails even if the loss was small, since nothing is found.
        """
        if self.after == 0 and self.before > self.tolerance:
            return False
        return self.high >= -self.tolerance

    @property
    def condition(self) -> str:
        """What has to hold, such as "recall@5 against runs/old"."""
        return f"{_metric_of(self.figure)} against {self.against}"

    def describe(self) -> str:
        """Name both figures, the interval of their difference, and n."""
        figure = self.figure
        verb = "is not surely below" if self.passed else "is below"
        tolerated = f" by more than {self.tolerance:g}" if self.tolerance else ""
        return (
            f"{_metric_of(figure)} of {figure.retriever} on {figure.set} {verb} {self.against}"
            f"{tolerated}: {self.after:.3f}, was {self.before:.3f}; difference "
            f"{self.after - self.before:+.3f} ({_describe_interval(self.low, self.high)}"
            f"n = {self.n:,})"
        )


Check = MinimumCheck | AgainstCheck


@dataclass(frozen=True)
class GateResult:
    """The checks of one retriever of a run, and the queries that an earlier evaluation lost or won."""

    run: str
    against: str
    retriever: str
    checks: tuple[Check, ...]
    changes: tuple[GateChanges, ...] = ()

    @property
    def failed(self) -> list[Check]:
        """The checks that do not hold."""
        return [check for check in self.checks if not check.passed]


def _metric_of(figure: Figure) -> str:
    return metric_name((figure.metric, figure.k))


def _describe_interval(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return ""
    return f"95 % interval {low:.3f} to {high:.3f}, "


def check_minima(
    figures: Sequence[Figure],
    thresholds: Sequence[Threshold],
    retriever: str,
    sets: Sequence[str],
) -> list[MinimumCheck]:
    """Check the figures of a retriever against thresholds, on these sets unless one names a set.

    Raises:
        InputError: there is no such figure.
    """
    of_retriever = {
        (one.set, (one.metric, one.k)): one
        for one in figures
        if one.retriever == retriever and one.value is not None
    }
    checks = []
    for threshold in thresholds:
        for name in [threshold.set] if threshold.set else sets:
            figure = of_retriever.get((name, threshold.metric))
            if figure is None:
                metrics = dict.fromkeys(metric_name(one) for _, one in of_retriever)
                there = dict.fromkeys(one for one, _ in of_retriever)
                raise InputError(
                    f"--min: {metric_name(threshold.metric)} on {name} is not measured. "
                    f"Metrics: {', '.join(metrics)}. Sets: {', '.join(there)}. "
                    "`evaluate.ks` in the recipe sets the cut-offs."
                )
            checks.append(MinimumCheck(figure, threshold.minimum))
    return checks


@dataclass(frozen=True)
class Pairing:
    """A set's queries that an earlier evaluation has, too: same text, same needed tools.

    `rows` are their positions in the set; `before` has the values of the earlier hits by the labels
    of today, for all queries of the set. `name` is that of the set or of a part of it. `only_new`
    and `only_old` count the queries that one evaluation lacks.
    """

    name: str
    before: Measured
    after: Measured
    rows: NDArray[np.int64]
    only_new: int
    only_old: int


def pair_up(
    measured: Measured, name: str, earlier: Sequence[Found], config: EvaluateConfig
) -> Pairing:
    """Pair the queries of a set, or of its part `name`, with those of an earlier file of hits.

    A tool that has an alias in this bank counts by the alias, too. A tool that this bank lacks
    keeps its rank, and counts only where a label names it.

    Raises:
        InputError: fewer than `FEWEST` queries are in both.
    """
    evaluated = measured.evaluated
    index = evaluated.index

    def key(query: str, tools: Iterable[str]) -> tuple[str, frozenset[int | str]]:
        return query, frozenset(index.get(name, name) for name in tools)

    known = {key(one.query, one.tools): one for one in earlier}
    keys = [
        key(*pair) for pair in zip(evaluated.queries, evaluated.labels, strict=True)
    ]
    selected = evaluated.selections()[name].tolist()
    rows = [row for row in selected if keys[row] in known]
    only_old = {
        key(one.query, one.tools) for one in earlier if one.set == evaluated.name
    } - {*keys}
    if len(rows) < FEWEST:
        raise InputError(
            f"--against: {count(len(rows), 'request')} of {name} "
            f"(n = {len(selected):,}) with the same text and tools {'is' if len(rows) == 1 else 'are'} "
            f"in the earlier evaluation; a comparison needs {FEWEST}. Evaluate both on the same "
            "file: add it to `evaluate.on` of the recipe."
        )
    depth = search_depth(config)
    hits = np.full((len(keys), depth), -1, np.int64)
    for row in rows:
        names = known[keys[row]].hits[:depth]
        hits[row, : len(names)] = [index.get(name, -1) for name in names]
    scores = np.zeros(hits.shape, np.float32)
    before = score_hits(measured.retriever, evaluated, config, (hits, scores))
    only_new = len(selected) - len(rows)
    return Pairing(name, before, measured, np.array(rows), only_new, len(only_old))


def check_against(
    pairing: Pairing,
    metrics: Sequence[Metric],
    figures: Sequence[Figure],
    against: str,
    tolerance: float,
    config: EvaluateConfig,
    seed: int,
) -> list[AgainstCheck]:
    """Check metrics of a set against an earlier evaluation, which is named `against`."""
    after, rows = pairing.after, pairing.rows
    columns = [after.metrics(config).index(metric) for metric in metrics]
    old, new = (of.values[rows][:, columns] for of in (pairing.before, after))
    # Without a width where all differences are the same: then the loss is that of every request.
    lows, highs = bootstrap_means(new - old, config.resamples, seed)
    by_metric = {
        (one.metric, one.k): one
        for one in figures
        if (one.retriever, one.set) == (after.retriever, pairing.name)
    }
    return [
        AgainstCheck(
            by_metric[metric],
            against,
            before=float(old[:, column].mean()),
            after=float(new[:, column].mean()),
            low=float(lows[column]),
            high=float(highs[column]),
            n=len(rows),
            tolerance=tolerance,
        )
        for column, metric in enumerate(metrics)
    ]


@dataclass(frozen=True)
class RankChange:
    """The ranks of a needed tool in both evaluations, None if it was not found."""

    tool: str
    before: int | None
    after: int | None


@dataclass(frozen=True)
class ChangedQuery:
    """A query whose recall has changed, and the ranks of its needed tools."""

    id: str
    query: str
    tools: tuple[RankChange, ...]


@dataclass(frozen=True)
class GateChanges:
    """The queries of a set whose top k has fewer needed tools than before, and more.

    `n` queries are in both evaluations, `only_new` and `only_old` in one.
    """

    set: str
    k: int
    n: int
    only_new: int
    only_old: int
    lost: tuple[ChangedQuery, ...]
    won: tuple[ChangedQuery, ...]


def find_changes(pairing: Pairing, k: int, config: EvaluateConfig) -> GateChanges:
    """Find the queries whose recall@k is lower or higher than in the earlier evaluation."""
    before, after = pairing.before, pairing.after
    column = after.metrics(config).index(("recall", k))
    differences = after.values[:, column] - before.values[:, column]

    def describe(row: int) -> ChangedQuery:
        evaluated = after.evaluated
        ranks = (_rank_tools(one, row) for one in (before, after))
        tools = tuple(map(RankChange, evaluated.labels[row], *ranks))
        return ChangedQuery(evaluated.ids[row], evaluated.queries[row], tools)

    rows = pairing.rows
    return GateChanges(
        pairing.name,
        k,
        len(rows),
        pairing.only_new,
        pairing.only_old,
        lost=tuple(describe(row) for row in rows.tolist() if differences[row] < 0),
        won=tuple(describe(row) for row in rows.tolist() if differences[row] > 0),
    )


def _rank_tools(measured: Measured, row: int) -> Iterator[int | None]:
    evaluated = measured.evaluated
    ranked = {tool: rank for rank, tool in enumerate(measured.hits[row].tolist(), 1)}
    return (ranked.get(evaluated.index[name]) for name in evaluated.labels[row])
