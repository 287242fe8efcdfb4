"""Retrievers that differ in one number alone: what Recall follows from it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolbank.evaluation.figures import Figure
from toolbank.report.lines import LineChart, Mean, draw_lines

_FEWEST = 3


@dataclass(frozen=True)
class Sweep:
    """Retrievers of one `type` by their values of one `key`, in rising order."""

    type: str
    key: str
    labels: dict[float, str]


def find_sweeps(retrievers: Sequence[Mapping[str, Any]]) -> list[Sweep]:
    """The settings of a recipe's retrievers of which three or more have but one number apart."""
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
    """Recall@k over the values, a line for each set of requests."""
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
