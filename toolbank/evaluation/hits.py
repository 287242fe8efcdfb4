"""What a retriever found for each query, so that others can recompute every figure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from toolbank.evaluation.evaluate import Measured
from toolbank.system.files import write_text


def write_hits(path: Path, measured: Sequence[Measured]) -> None:
    """Write what one retriever found on all sets, a line a query.

    A line has `set`, `parts` (of the set that the query is in), `id`, `tools` (those that it
    needs), `hits` (what was found, best first) and `scores`. The order of the hits counts:
    scores may be equal, and are rounded.
    """
    lines = (line for one in measured for line in _lines(one))
    write_text(path, "".join(lines))


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
            "tools": evaluated.labels[position],
            "hits": [evaluated.tools[i] for i in measured.hits[position][:n_found]],
            "scores": [float(f"{score:.6g}") for score in scores],
        }
        yield json.dumps(row, ensure_ascii=False) + "\n"
