"""The kind of an export format: how a bank is written in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolbank.bank.bank import Bank, LabelledQuery, QueryLabels, apply_labels
from toolbank.bank.records import Query, Record, Split
from toolbank.system.files import atomic_path

SPLITS: tuple[Split, ...] = ("train", "validation", "test")


@dataclass(frozen=True)
class ExportKind:
    """A format that a bank is exported in.

    - `write` writes a bank to an empty folder.
    - `optional` are the files and folders that only some banks have; those of an earlier export
      are removed.
    - `tools_only`: it has no requests, so labels and splits do not matter.
    - `known_only`: it omits labels that name no tool of the bank, and requests without others.
    - `stream` does what `write` does, from the folder of a bank, row by row.
    """

    write: Callable[[Bank, Path], None]
    optional: tuple[str, ...] = ()
    tools_only: bool = False
    known_only: bool = False
    stream: Callable[[Path, Path], None] | None = None


def select_split(bank: Bank, split: Split) -> list[LabelledQuery]:
    """Select the queries of a split with their merged labels, without excluded ones.

    Queries without a split are for training, unless the bank was split.
    """
    other = None if "splits" in bank.info else "train"
    return [
        apply_labels(query, bank.verified.get(query.id), bank.profiles)
        for query in bank.queries
        if (query.split or other) == split and not is_aside(query, bank.verified)
    ]


def count_unknown(bank: Bank) -> int:
    """Count the labels of the splits that name no tool of the bank."""
    queries = (query for split in SPLITS for query in select_split(bank, split))
    return sum(name not in bank.index for query in queries for name in query.tools)


def is_aside(query: Query, verified: Mapping[str, QueryLabels]) -> bool:
    """Whether verification excluded a query."""
    return query.id in verified and bool(verified[query.id].aside)


def write_lines(path: Path, rows: Iterable[Record | Mapping[str, Any]]) -> None:
    """Write records or objects as JSON lines, atomically."""
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        for row in rows:
            content = (
                row.model_dump(mode="json", by_alias=True)
                if isinstance(row, Record)
                else row
            )
            file.write(json.dumps(content, ensure_ascii=False) + "\n")
