"""What 8 bits lose: Recall of a packed finder's retrievers on labelled requests.

    python benchmarks/search/precision.py FINDER LABELLED.jsonl [LABELLED.jsonl ...]

FINDER was packed with --both. Each file has a request a line: query, and tools or labels. The 95 %
interval is of the paired difference, by bootstrap over requests.
"""

import json
import sys
from pathlib import Path

import numpy as np

from toolbank.search.finder import Finder

KS = (3, 5)


def read(path, known):
    for line in Path(path).read_text().splitlines():
        row = json.loads(line)
        tools = {*(row.get("tools") or row.get("labels") or ())} & known
        if row.get("query") and tools:
            yield row["query"], tools


def recall(finder, label, rows):
    """Recall [n, 2] at 3 and at 5."""
    found = []
    for query, tools in rows:
        indices, _ = finder.retrievers[label].search([query], max(KS))
        names = [finder.tools.names[place] for place in indices[0] if place >= 0]
        found.append([len({*names[:k]} & tools) / len(tools) for k in KS])
    return np.array(found)


def main(folder, *paths):
    finder = Finder.open(Path(folder))
    known = {*finder.tools.names}
    draws = np.random.default_rng(0)
    for path in paths:
        rows = list(read(path, known))
        print(f"{Path(path).name}, n {len(rows)}")
        for label in finder.retrievers:
            if f"{label}-int8" not in finder.retrievers:
                continue
            whole = recall(finder, label, rows)
            lost = whole - recall(finder, f"{label}-int8", rows)
            drawn = lost[draws.integers(0, len(lost), (2_000, len(lost)))].mean(axis=1)
            for place, k in enumerate(KS):
                low, high = 100 * np.percentile(drawn[:, place], [2.5, 97.5])
                print(
                    f"  {label:12} Recall@{k} {100 * whole[:, place].mean():5.1f}, "
                    f"lost {100 * lost[:, place].mean():+.2f} ({low:+.2f} to {high:+.2f})",
                    flush=True,
                )


if __name__ == "__main__":
    main(*sys.argv[1:])
