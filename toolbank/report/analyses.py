"""Analyse which tools and requests are missed, and why."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toolbank.evaluation import TEST_PARTS
from toolbank.evaluation.evaluate import Found
from toolbank.evaluation.figures import Figure
from toolbank.report.content import Content
from toolbank.report.scores import title_of
from toolbank.report.svg import LineChart, Mean, Overlay, draw_lines, overlay, take_mean
from toolbank.requests.asks import KINDS

PARTS = ("never", "up to half of the times", "more often", "always")
"""Ranges of how often a tool is missed."""


@dataclass(frozen=True)
class ToolFailures:
    """The share of its requests that miss a tool, over all needed tools.

    `mean` and (standard) `deviation` are over tools; `parts` counts tools by `PARTS`.
    """

    mean: float
    deviation: float
    parts: tuple[int, ...]


def count_failures(
    found: Sequence[Found], known: Container[str]
) -> ToolFailures | None:
    """Count the failures of a method per tool, as in arXiv 2409.02141.

    Names that are not `known` are skipped, since nothing could find them. None if no request needs
    a known tool.
    """
    needed = Counter(tool for one in found for tool in one.tools if tool in known)
    missed = Counter(tool for one in found for tool in one.missed)
    if not needed:
        return None
    rates = np.array([missed[tool] / n for tool, n in needed.items()])
    part = np.select([rates == 0, rates <= 0.5, rates < 1], [0, 1, 2], default=3)
    counts = np.bincount(part, minlength=len(PARTS))
    return ToolFailures(float(rates.mean()), float(rates.std()), tuple(counts.tolist()))


def compare_kinds(found: Mapping[str, Sequence[Found]], seed: int) -> LineChart | None:
    """Draw the recall by kind of ask, a line per method; None if no id names a kind.

    `found` has the top k of each method for the same queries.
    """
    recalls: dict[str, defaultdict[str, list[float]]] = {}
    for method, of_one in found.items():
        by_kind = recalls[method] = defaultdict(list)
        for one in of_one:
            # As in ask-terse-17.
            first, kind, *_ = [*one.id.split("-"), ""]
            is_ask = first == "ask" and kind in KINDS
            by_kind[kind if is_ask else ""].append(one.recall)
    there = {kind for by_kind in recalls.values() for kind in by_kind}
    kinds = [kind for kind in (*KINDS, "") if kind in there]
    if kinds in ([], [""]):
        return None
    return draw_lines(
        [kind or "others" for kind in kinds],
        {
            method: [take_mean(by_kind[kind], seed) for kind in kinds]
            for method, by_kind in recalls.items()
        },
    )


_FEWEST = 3


@dataclass(frozen=True)
class Sweep:
    """Retrievers of one `type` with different values of one `key`, in rising order."""

    type: str
    key: str
    labels: dict[float, str]


def find_sweeps(retrievers: Sequence[Mapping[str, Any]]) -> list[Sweep]:
    """Find groups of three or more retrievers that differ only in one number."""
    groups: defaultdict[tuple[str, str], dict[float, str]] = defaultdict(dict)
    for settings in retrievers:
        flat = dict(_flatten({**settings, "name": ""}))
        for key, value in flat.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                rest = json.dumps({**flat, key: None}, sort_keys=True, default=str)
                label = str(settings.get("name") or settings.get("type"))
                groups[key, rest].setdefault(value, label)
    return [
        Sweep(str(json.loads(rest)["type"]), key, dict(sorted(labels.items())))
        for (key, rest), labels in groups.items()
        if len(labels) >= _FEWEST
    ]


def draw_sweep(
    sweep: Sweep, figures: Sequence[Figure], k: int | None
) -> LineChart | None:
    """Draw recall@k over the values, a line per evaluation set."""
    recall = {
        (one.set, one.retriever): Mean(one.value, one.low, one.high, one.n)
        for one in figures
        if (one.metric, one.k) == ("recall", k) and one.value is not None
    }
    names = dict.fromkeys(name for name, _ in recall)
    return draw_lines(
        [f"{value:g}" for value in sweep.labels],
        {
            name: [recall.get((name, label)) for label in sweep.labels.values()]
            for name in names
        },
    )


def _flatten(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


_GROUPS = 5


def follow_uses(
    found: Mapping[str, Sequence[Found]], uses: Mapping[str, int], seed: int
) -> LineChart | None:
    """Draw the share of needed tools that are found by the number of their training requests.

    There is a line per method. `found` has the top k of each for the same queries; tools that are
    not in `uses` are skipped. None if all tools are in one group.
    """
    needed = [
        uses[tool]
        for one in next(iter(found.values()), ())
        for tool in one.tools
        if tool in uses
    ]
    starts = cut_evenly(needed, _GROUPS)
    if len(starts) < 2:
        return None
    ends = [*starts[1:], max(needed) + 1]
    return draw_lines(
        [
            str(start) if end == start + 1 else f"{start}\u2013{end - 1}"
            for start, end in zip(starts, ends, strict=True)
        ],
        {
            method: [
                take_mean(
                    [
                        float(tool not in one.missed)
                        for one in of_one
                        for tool in one.tools
                        if start <= uses.get(tool, -1) < end
                    ],
                    seed,
                )
                for start, end in zip(starts, ends, strict=True)
            ]
            for method, of_one in found.items()
        },
    )


def cut_evenly(numbers: Sequence[int], groups: int) -> list[int]:
    """Find where groups of about equal size start; equal numbers stay in one group."""
    starts: list[int] = []
    size, inside = len(numbers) / groups, 0
    for number, times in sorted(Counter(numbers).items()):
        if not starts or inside >= size:
            starts.append(number)
            inside = 0
        inside += times
    return starts


@dataclass(frozen=True)
class Misses:
    """The misses of an evaluation set of n queries.

    `lengths` are those of the method `best`, the one with the highest recall.
    """

    title: str
    n: int
    best: str
    failures: dict[str, ToolFailures]
    lengths: Overlay | None
    uses: LineChart | None
    kinds: LineChart | None


def describe_misses(content: Content) -> list[Misses]:
    """Describe the misses of each evaluation set that has queries."""
    bank = content.bank
    uses: dict[str, int] = {}
    if train := bank.train_queries:
        uses = dict.fromkeys(bank.tool_names, 0)
        uses |= Counter(
            bank.tools[position].name
            for query in train
            for position in {bank.index[t] for t in query.tools if t in bank.index}
        )
    described = []
    sets = dict.fromkeys(one.set for of_one in content.hits.values() for one in of_one)
    for name in sets:
        found = {
            method: [one for one in of_one if one.set == name]
            for method, of_one in content.hits.items()
        }
        best = max(found, key=lambda method: sum(one.recall for one in found[method]))
        failures = {
            method: count_failures(of_one, bank.index)
            for method, of_one in found.items()
        }
        lengths = {
            label: [
                len(one.query.split())
                for one in found[best]
                if bool(one.missed) == is_missed
            ]
            for label, is_missed in (("all found", False), ("one missed", True))
        }
        described.append(
            Misses(
                title=title_of(name),
                n=len(found[best]),
                best=best,
                failures={method: one for method, one in failures.items() if one},
                lengths=overlay(list(lengths.items())),
                uses=follow_uses(found, uses, content.seed),
                kinds=compare_kinds(found, content.seed),
            )
        )
    return described


def describe_sweeps(content: Content, k: int | None) -> list[tuple[Sweep, LineChart]]:
    """Draw a chart for each setting that the recipe varies."""
    figures = [one for one in content.figures if one.set not in TEST_PARTS]
    sweeps = find_sweeps(content.recipe.get("retrievers") or ())
    drawn = [(sweep, draw_sweep(sweep, figures, k)) for sweep in sweeps]
    return [(sweep, chart) for sweep, chart in drawn if chart]
