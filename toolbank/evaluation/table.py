"""The records of an evaluation as plain text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_NAMED = 5
_PARTS = ("test-seen-sets", "test-unseen-sets")


def format_table(records: Sequence[dict[str, Any]]) -> str:
    """Records as a block a set and a line a retriever, in percent.

    A part of the test split that is the whole of it is not repeated.
    Recall at every k, with the 95 % interval at 5 (or the smallest k); nDCG and COMP there too.
    """
    sizes = {record["set"]: record["n"] for record in records}
    blocks = []
    for name, n in sizes.items():
        if name in _PARTS and n == sizes.get("test") and n:
            blocks.append(f"{name}: all of test (n = {n})")
        else:
            blocks.append(_format_set(name, [r for r in records if r["set"] == name]))
    return "\n\n".join(blocks)


def format_notes(labels: Sequence[dict[str, Any]]) -> str:
    """What could not count, by what `describe_labels` says of each set: a line a finding."""
    lines = []
    for described in labels:
        name, unknown = described["set"], described["unknown"]
        if unknown:
            names = list(unknown)
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            lines.append(
                f"{name}: {len(names)} labels name no tool of this bank and count as not "
                f"found ({sum(unknown.values())} uses): {', '.join(names[:_NAMED])}{more}"
            )
        if described["refusals"]:
            lines.append(
                f"{name}: {described['refusals']} lines need no tool and are left out"
            )
    return "\n".join(lines)


def _format_set(name: str, records: Sequence[dict[str, Any]]) -> str:
    n = records[0]["n"]
    if n == 0:
        return f"{name}: no queries (n = 0)"
    values = {(r["retriever"], r["metric"], r["k"]): r for r in records}
    ks = list(dict.fromkeys(r["k"] for r in records if r["metric"] == "recall"))
    main = 5 if 5 in ks else min(ks)
    header = ["retriever"]
    for k in ks:
        header += [f"R@{k}", "95 %"] if k == main else [f"R@{k}"]
    header += [f"nDCG@{main}", f"COMP@{main}", "MRR"]
    rows = [header]
    for retriever in dict.fromkeys(r["retriever"] for r in records):
        row = [retriever]
        for k in ks:
            record = values[retriever, "recall", k]
            row.append(_percent(record["value"]))
            if k == main:
                row.append(f"{_percent(record['low'])} to {_percent(record['high'])}")
        row += [_percent(values[retriever, m, main]["value"]) for m in ("ndcg", "comp")]
        row.append(_percent(values[retriever, "mrr", None]["value"]))
        rows.append(row)
    return f"{name} (n = {n:,}, percent)\n{_align(rows)}"


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _align(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  "
        + "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
