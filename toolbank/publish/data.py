"""Write the rows of a publication: parquet shards by split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, get_args

from toolbank.bank.bank import (
    Label,
    LabelledQuery,
    QueryLabels,
    apply_labels,
    group_labels,
    read_labels,
    read_missing,
    read_profiles,
)
from toolbank.bank.files import make_frame, read_column, read_records
from toolbank.bank.profile import AXES
from toolbank.bank.records import Ask, Query, Record, Split, Tool
from toolbank.datasets.published import ASIDE, MISSING_ROWS, shard_name
from toolbank.publish.qrels import QrelCounts, write_beir

if TYPE_CHECKING:
    import polars as pl


R = TypeVar("R", bound=Record)

SHARD_ROWS = 50_000
_ROW_GROUP = 4096


class ShardWriter:
    """Writes records of one kind to NAME-00000-of-00003.parquet and so on.

    It is a context manager; at its end the files get their names. Without rows there is one file, or
    none if they are `optional`. `rows` counts the written rows. At most a few thousand rows are in
    memory.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        kind: type[Record],
        shard_rows: int = SHARD_ROWS,
        *,
        optional: bool = False,
    ) -> None:
        self.rows = 0
        self._folder, self._name, self._shard_rows = folder, name, shard_rows
        self._kind, self._optional = kind, optional
        self._held: list[Record] = []
        self._schema = _with_plain_types(_to_arrow(make_frame(kind, ())).schema)
        self._writer: Any = None
        self._in_shard = 0
        self._parts: list[Path] = []

    def write(self, record: Record) -> None:
        """Write a record of the kind."""
        self._held.append(record)
        if len(self._held) == _ROW_GROUP:
            self._write_group()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            while self._held or not (self._parts or self._optional):
                self._write_group()
        if self._writer is not None:
            self._writer.close()
        if kind is None:
            for number, part in enumerate(self._parts):
                name = shard_name(self._name, number, len(self._parts))
                part.rename(self._folder / name)

    def _write_group(self) -> None:
        from pyarrow import parquet

        if self._writer is None:
            part = self._folder / f".{self._name}-{len(self._parts)}"
            self._parts.append(part)
            self._writer = parquet.ParquetWriter(part, self._schema, compression="zstd")
        length = min(_ROW_GROUP, self._shard_rows - self._in_shard, len(self._held))
        group = make_frame(self._kind, self._held[:length])
        self._held = self._held[length:]
        # An empty file gets no row group: `datasets` takes the size of its batches from the first.
        if length:
            self._writer.write_table(_to_arrow(group).cast(self._schema))
        self.rows += length
        self._in_shard += length
        if self._in_shard == self._shard_rows:
            self._writer.close()
            self._writer, self._in_shard = None, 0


def _to_arrow(frame: pl.DataFrame) -> Any:
    import polars as pl

    return frame.to_arrow(compat_level=pl.CompatLevel.oldest())


def _with_plain_types(schema: Any) -> Any:
    """Replace polars' large strings and lists with those that every reader of parquet supports."""
    import pyarrow as pa

    return pa.schema([pa.field(one.name, _plain(one.type)) for one in schema])


def _plain(kind: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _plain(one.type)) for one in kind])
    return kind


@dataclass(frozen=True)
class RowCounts:
    """How many rows of each kind were written.

    `left_out` counts queries without a split, and `aside` those that a grade excluded from their
    split. `relabelled` counts the others whose merged labels differ from the first ones, `graders`
    the queries by the kind of their grader, and `classes` the queries by axis and class. `missing`
    counts the queries that no tool fits, and `missing_graded` those that a grader has confirmed.
    """

    tools: int
    queries: Mapping[str, int]
    asks: int = 0
    labels: int = 0
    left_out: int = 0
    aside: int = 0
    relabelled: int = 0
    graders: Mapping[str, int] = field(default_factory=dict)
    classes: Counter[tuple[str, str | None]] = field(default_factory=Counter)
    missing: int = 0
    missing_graded: int = 0


def write_data(bank: Path, folder: Path, shard_rows: int = SHARD_ROWS) -> RowCounts:
    """Write the rows of a bank to a folder; the same bank gives the same bytes.

    `tools` of a query has the merged labels, `tools_first` the first ones. Only labels are read as
    a whole. Queries without a split are skipped with their labels. Missing-tool queries are rows
    with an empty list of tools, and name their split.

    Raises:
        InputError: a file of the bank is missing, damaged, or not of this layout.
    """
    folder.mkdir()
    labels = read_labels(bank / "labels.parquet")
    found = read_records(bank / "tools.parquet", Tool)
    tools = _write(folder, "tools", Tool, found, shard_rows)
    every, fitted = read_missing(bank)
    missing = [query for query in every if query.split]
    fit_none = {query.id for query in missing}
    relabelled, classes = 0, Counter[tuple[str, str | None]]()
    verified, profiles = group_labels(labels), read_profiles(bank)
    left_out = {query.id for query in every if not query.split}
    with ExitStack() as stack:
        writers = {
            name: stack.enter_context(
                ShardWriter(
                    folder, name, LabelledQuery, shard_rows, optional=name == ASIDE
                )
            )
            for name in (*get_args(Split), ASIDE)
        }
        for query in chain(read_records(bank / "queries.parquet", Query), fitted):
            label = verified.get(query.id)
            labelled = apply_labels(query, label, profiles)
            if query.split is None:
                left_out.add(query.id)
                continue
            is_aside = bool(label and label.aside)
            writers[ASIDE if is_aside else query.split].write(labelled)
            if not is_aside:
                relabelled += {*labelled.tools} != {*labelled.tools_first}
                classes.update((axis, getattr(labelled, axis)) for axis in AXES)
    asks: Iterable[Ask] = ()
    if (bank / "asks.parquet").is_file():
        asks = read_records(bank / "asks.parquet", Ask)
    kept = [label for label in labels if label.query not in left_out]
    graders = Counter(
        {one.query: one.kind for one in kept if one.query not in fit_none}.values()
    )
    return RowCounts(
        tools,
        {split: writers[split].rows for split in get_args(Split)},
        _write(folder, "asks", Ask, asks, shard_rows, optional=True),
        _write(folder, "labels", Label, kept, shard_rows, optional=True),
        len(left_out),
        writers[ASIDE].rows,
        relabelled,
        dict(sorted(graders.items())),
        classes,
        _write(folder, MISSING_ROWS, Query, missing, shard_rows, optional=True),
        len(fit_none & verified.keys()),
    )


def _write(
    folder: Path,
    name: str,
    kind: type[Record],
    records: Iterable[Record],
    shard_rows: int,
    *,
    optional: bool = False,
) -> int:
    with ShardWriter(folder, name, kind, shard_rows, optional=optional) as writer:
        for record in records:
            writer.write(record)
    return writer.rows


def write_graded(data: Path, folder: Path) -> dict[Split, QrelCounts]:
    """Write the layouts of BEIR and TREC from the shards in `data`, as `write_beir`.

    Raises:
        InputError: a shard can't be read.
    """
    return write_beir(
        folder,
        read_shards(data, "tools", Tool),
        lambda split: read_shards(data, split, LabelledQuery),
        partial(_read_labels, data),
        read_shards(data, MISSING_ROWS, Query),
    )


def _read_labels(data: Path, split: Split) -> Mapping[str, QueryLabels]:
    """Read the merged labels of the queries of a split."""
    shards = sorted(data.glob(f"{split}-*.parquet"))
    ids = {name for shard in shards for name in read_column(shard, "id")}
    labels = read_shards(data, "labels", Label)
    return group_labels(label for label in labels if label.query in ids)


def read_shards(data: Path, name: str, kind: type[R]) -> Iterator[R]:
    """Read the rows of all shards of a name.

    Raises:
        InputError: a shard can't be read.
    """
    for shard in sorted(data.glob(f"{name}-*.parquet")):
        yield from read_records(shard, kind)
