"""What a retriever found for each query, so that others can recompute every figure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from toolbank.config.explain import check
from toolbank.evaluation.evaluate import Measured
from toolbank.system.files import read_lines, write_text


@dataclass(frozen=True)
class Found:
    """What one retriever found for one query: a line of its file of hits, cut at some rank."""

    set: str
    id: str
    query: str
    tools: tuple[str, ...]
    hits: tuple[str, ...]

    @property
    def recall(self) -> float:
        """The share of the needed tools that are among the hits."""
        return 1 - len(self.missed) / len(self.tools)

    @property
    def missed(self) -> tuple[str, ...]:
        """The needed tools that are not among the hits."""
        return tuple(tool for tool in self.tools if tool not in self.hits)


def write_hits(path: Path, measured: Sequence[Measured]) -> None:
    """Write what one retriever found on all sets, a line a query.

    A line has `set`, `parts` (of the set that the query is in), `id`, `query`, `tools` (those that
    it needs), `hits` (what was found, best first) and `scores`. The order of the hits counts:
    scores may be equal, and are rounded.
    """
    lines = (line for one in measured for line in _lines(one))
    write_text(path, "".join(lines))


def read_hits(path: Path, k: int) -> list[Found]:
    """Read what `write_hits` left, with the first k hits of each query.

    Raises:
        InputError: the file is missing or damaged.
    """
    rows = check(read_lines(path, lambda row, _: row), list[Found], path)
    return [replace(one, hits=one.hits[:k]) for one in rows]


def _lines(measured: Measured) -> Iterator[str]:
    evaluated = measured.evaluated
    parts: list[list[str]] = [[] for _ in evaluated.queries]
    for name, rows in evaluated.parts.items():
        for row in rows:
            parts[row].append(name)
    for position, name in enumerate(evaluated.ids):
        n_found = int((measured.hits[position] >= 0).sum())
        scores = measured.scores[position][:n_found]
        row = {
            "set": evaluated.name,
            "parts": parts[position],
            "id": name,
            "query": evaluated.queries[position],
            "tools": evaluated.labels[position],
            "hits": [evaluated.tools[i] for i in measured.hits[position][:n_found]],
            "scores": [float(f"{score:.6g}") for score in scores],
        }
        yield json.dumps(row, ensure_ascii=False) + "\n"
