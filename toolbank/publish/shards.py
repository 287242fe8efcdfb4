"""Rows as parquet files of so many rows each, written as they come."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from toolbank.bank.files import make_schema
from toolbank.bank.records import Record
from toolbank.datasets.published import shard_name

if TYPE_CHECKING:
    import polars as pl

SHARD_ROWS = 50_000
_ROW_GROUP = 4096


class ShardWriter:
    """Writes frames of one kind of record to NAME-00000-of-00003.parquet and so on.

    As a context: when it ends, the files have their names, of which there is at least one.
    `rows` counts what was written. No more than some thousands of rows are held.
    """

    def __init__(
        self, folder: Path, name: str, kind: type[Record], shard_rows: int = SHARD_ROWS
    ) -> None:
        import polars as pl

        self.rows = 0
        self._folder, self._name, self._shard_rows = folder, name, shard_rows
        self._held = pl.DataFrame(schema=make_schema(kind))
        self._schema = _with_plain_types(_to_arrow(self._held).schema)
        self._writer: Any = None
        self._in_shard = 0
        self._parts: list[Path] = []

    def write(self, frame: pl.DataFrame) -> None:
        """Write rows that have the columns of the kind."""
        self._held = self._held.vstack(frame)
        while len(self._held) >= _ROW_GROUP:
            self._write_group()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            while len(self._held) or not self._parts:
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
        group = self._held.head(length)
        self._held = self._held.slice(length)
        # An empty file has no row group: `datasets` reads as many rows at once as the first has.
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
    """Strings and lists as every reader of parquet knows them, and not polars' large ones."""
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
