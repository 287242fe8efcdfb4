"""The rows of a bank as shards: tools, queries by split, asks, verified labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from toolbank.bank.files import explain_foreign_file, read_frames, read_records
from toolbank.bank.labels import Label
from toolbank.bank.record import Record
from toolbank.bank.records import Ask, Query, Split, Tool
from toolbank.bank.schema import make_frame, make_schema
from toolbank.loaders.published import shard_name
from toolbank.publish.shards import SHARD_ROWS, ShardWriter
from toolbank.system.errors import InputError

if TYPE_CHECKING:
    import polars as pl

_FRAME = 1024


@dataclass(frozen=True)
class Rows:
    """How many rows of each kind were written; `left_out` counts queries of no split."""

    tools: int
    queries: Mapping[str, int]
    asks: int = 0
    labels: int = 0
    left_out: int = 0


def write_data(
    bank: Path, folder: Path, shard_rows: int = SHARD_ROWS, has_labels: bool = True
) -> Rows:
    """Write the rows of a bank's folder to a folder; the same bank, the same bytes.

    Rows are read and written as they come. Queries that are in no split are left out, with their
    labels: a bank keeps them to be neither trained nor tested with. Without `has_labels` there are no
    verified labels, as where they are of an earlier bank.

    Raises:
        InputError: a file of the bank is missing, damaged, or not of this layout.
    """
    folder.mkdir()
    with ShardWriter(folder, "tools", Tool, shard_rows) as tools:
        # By way of records, which give what an older layout lacks.
        for frame in _frames(Tool, read_records(bank / "tools.parquet", Tool)):
            tools.write(frame)
    counts, left_out = _write_queries(bank / "queries.parquet", folder, shard_rows)
    asks = _write_more(bank / "asks.parquet", folder, Ask, shard_rows, set())
    labels = 0
    if has_labels:
        path = bank / "labels.parquet"
        labels = _write_more(path, folder, Label, shard_rows, left_out)
    return Rows(tools.rows, counts, asks, labels, len(left_out))


def _frames(kind: type[Record], records: Iterable[Record]) -> Iterator[pl.DataFrame]:
    left = iter(records)
    while some := list(islice(left, _FRAME)):
        yield make_frame(kind, some)


def _write_queries(
    path: Path, folder: Path, shard_rows: int
) -> tuple[dict[str, int], set[str]]:
    """Write the queries by split; gives how many, and the ids of those that are in none."""
    import polars as pl

    left_out: set[str] = set()
    with ExitStack() as stack:
        writers = {
            split: stack.enter_context(ShardWriter(folder, split, Query, shard_rows))
            for split in get_args(Split)
        }
        for frame in _read(path, Query):
            for split, writer in writers.items():
                writer.write(frame.filter(pl.col("split") == split))
            left_out.update(frame.filter(pl.col("split").is_null())["id"])
    return {split: writer.rows for split, writer in writers.items()}, left_out


def _write_more(
    path: Path, folder: Path, kind: type[Record], shard_rows: int, without: set[str]
) -> int:
    """Write the rows of a file that a bank may lack, without those of some queries.

    Where there are none, no shard is left.
    """
    import polars as pl

    if not path.is_file():
        return 0
    with ShardWriter(folder, path.stem, kind, shard_rows) as writer:
        for frame in _read(path, kind):
            writer.write(
                frame.filter(~pl.col("query").is_in(list(without)))
                if without
                else frame
            )
    if not writer.rows:
        (folder / shard_name(path.stem, 0, 1)).unlink()
    return writer.rows


def _read(path: Path, kind: type[Record]) -> Iterator[pl.DataFrame]:
    """The rows of a file with the columns of their kind, and no others."""
    import polars as pl
    from polars.exceptions import PolarsError

    schema = pl.Schema(make_schema(kind))
    for frame in read_frames(path):
        try:
            yield frame.select(list(schema)).cast(schema)
        except PolarsError as error:
            raise InputError(explain_foreign_file(path, error)) from error
