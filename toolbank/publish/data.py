"""The rows of a bank as shards: tools, queries by split, those set aside, asks, labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from toolbank.bank.bank import (
    Label,
    LabelledQuery,
    Verified,
    apply_labels,
    group_labels,
    read_labels,
)
from toolbank.bank.files import make_frame, read_records
from toolbank.bank.records import Ask, Query, Record, Split, Tool
from toolbank.datasets.published import ASIDE, shard_name
from toolbank.publish.shards import SHARD_ROWS, ShardWriter

if TYPE_CHECKING:
    import polars as pl

_FRAME = 1024


@dataclass(frozen=True)
class Rows:
    """How many rows of each kind were written; `left_out` counts queries of no split.

    `aside` counts queries that a grade has set aside, which are in no split's files; `relabelled`
    the others whose merged labels are not their first ones; `graders` the queries that each kind
    of grader labelled.
    """

    tools: int
    queries: Mapping[str, int]
    asks: int = 0
    labels: int = 0
    left_out: int = 0
    aside: int = 0
    relabelled: int = 0
    graders: Mapping[str, int] = field(default_factory=dict)


def write_data(bank: Path, folder: Path, shard_rows: int = SHARD_ROWS) -> Rows:
    """Write the rows of a bank's folder to a folder; the same bank, the same bytes.

    Queries have their merged labels as `tools`, and those that they were written with as
    `tools_first`. Rows are read and written as they come, but for the labels. Queries that are in
    no split are left out, with their labels: a bank keeps them to be neither trained nor tested
    with.

    Raises:
        InputError: a file of the bank is missing, damaged, or not of this layout.
    """
    folder.mkdir()
    labels = read_labels(bank / "labels.parquet")
    found = read_records(bank / "tools.parquet", Tool)
    tools = _write(folder, "tools", Tool, found, shard_rows)
    n, left_out = _write_queries(bank, folder, shard_rows, group_labels(labels))
    asks = 0
    if (bank / "asks.parquet").is_file():
        rows = read_records(bank / "asks.parquet", Ask)
        asks = _write(folder, "asks", Ask, rows, shard_rows)
    kept = [label for label in labels if label.query not in left_out]
    _write(folder, "labels", Label, kept, shard_rows)
    graders = Counter({one.query: one.kind for one in kept}.values())
    return Rows(
        tools,
        {split: n[split] for split in get_args(Split)},
        asks,
        len(kept),
        len(left_out),
        n[ASIDE],
        n["relabelled"],
        dict(sorted(graders.items())),
    )


def _write(
    folder: Path,
    name: str,
    kind: type[Record],
    records: Iterable[Record],
    shard_rows: int,
) -> int:
    """Write records as shards; without any, those that a bank may lack have no shard."""
    with ShardWriter(folder, name, kind, shard_rows) as writer:
        for frame in _frames(kind, records):
            writer.write(frame)
    if not writer.rows and kind in (Ask, Label):
        (folder / shard_name(name, 0, 1)).unlink()
    return writer.rows


def _frames(kind: type[Record], records: Iterable[Record]) -> Iterator[pl.DataFrame]:
    left = iter(records)
    while some := list(islice(left, _FRAME)):
        yield make_frame(kind, some)


def _write_queries(
    bank: Path, folder: Path, shard_rows: int, verified: Mapping[str, Verified]
) -> tuple[Counter[str], set[str]]:
    """Write the queries by split; gives how many, and the ids of those that are in none."""
    counts: Counter[str] = Counter()
    left_out: set[str] = set()
    with ExitStack() as stack:
        writers = {
            name: stack.enter_context(
                ShardWriter(folder, name, LabelledQuery, shard_rows)
            )
            for name in (*get_args(Split), ASIDE)
        }
        queries = read_records(bank / "queries.parquet", Query)
        while some := list(islice(queries, _FRAME)):
            rows: dict[str, list[LabelledQuery]] = {name: [] for name in writers}
            for query in some:
                label = verified.get(query.id)
                labelled = apply_labels(query, label)
                if query.split is None:
                    left_out.add(query.id)
                elif label and label.aside:
                    rows[ASIDE].append(labelled)
                else:
                    rows[query.split].append(labelled)
                    is_other = set(labelled.tools) != set(labelled.tools_first)
                    counts["relabelled"] += is_other
            for name, writer in writers.items():
                writer.write(make_frame(LabelledQuery, rows[name]))
    for name, writer in writers.items():
        counts[name] = writer.rows
    if not counts[ASIDE]:
        (folder / shard_name(ASIDE, 0, 1)).unlink()
    return counts, left_out
