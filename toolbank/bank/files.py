"""The files of a bank: parquet, written and read a row group at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from toolbank.bank.records import (
    AttemptRow,
    Provenance,
    Query,
    Raised,
    Record,
    Returned,
    SeeAlso,
    Tool,
    VersionNote,
)
from toolbank.system.errors import InputError
from toolbank.system.files import atomic_path

if TYPE_CHECKING:
    import pyarrow as pa

_ROW_GROUP = 4096

_R = TypeVar("_R", bound=Record)


def write_tools(path: Path, tools: Iterable[Tool]) -> None:
    """Write tools to a parquet file, atomically; same tools, same bytes."""
    _write_rows(path, map(_tool_row, tools), _tool_schema())


def write_queries(path: Path, queries: Iterable[Query]) -> None:
    """Write queries to a parquet file, atomically; same queries, same bytes.

    They are written as they come: no more than a few thousand are held.
    """
    _write_rows(path, (query.model_dump() for query in queries), _query_schema())


def write_attempts(path: Path, attempts: Iterable[AttemptRow]) -> None:
    """Write rows of attempts to a parquet file as `write_queries` does queries."""
    rows = (attempt.model_dump() for attempt in attempts)
    _write_rows(path, rows, _attempt_schema())


def read_tools(path: Path) -> tuple[Tool, ...]:
    """Read a tools.parquet; what an older layout did not have yet is empty.

    Raises:
        InputError: the file is missing, damaged, or not of this layout.
    """
    rows = list(_read_rows(path))
    try:
        for row in rows:
            row["parameters"] = json.loads(row["parameters"])
            for returned in row["returns"]:
                if returned.get("structure") is not None:
                    returned["structure"] = json.loads(returned["structure"])
        return tuple(Tool.model_validate(row) for row in rows)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(foreign_file(path, error)) from error


def read_queries(path: Path) -> tuple[Query, ...]:
    """Read a queries.parquet.

    Raises:
        InputError: the file is missing, damaged, or not of this layout.
    """
    return tuple(_read_records(path, Query))


def read_query(path: Path, name: str) -> Query | None:
    """The query of this id in a queries.parquet, if it is there.

    Raises:
        InputError: as of `read_queries`.
    """
    found = _read_records(path, Query, lambda row: bool(row["id"] == name))
    return next(found, None)


def read_attempts(path: Path) -> Iterator[AttemptRow]:
    """Read an attempts.parquet, as its rows are asked for.

    Raises:
        InputError: the file is missing, damaged, or not of this layout.
    """
    return _read_records(path, AttemptRow)


def read_attempt(path: Path, number: int) -> AttemptRow | None:
    """The row of this attempt in an attempts.parquet, if it is there.

    Raises:
        InputError: as of `read_attempts`.
    """
    found = _read_records(path, AttemptRow, lambda row: bool(row["attempt"] == number))
    return next(found, None)


def _tool_row(tool: Tool) -> dict[str, Any]:
    row = tool.model_dump()
    row["parameters"] = _to_json(row["parameters"])
    for returned in row["returns"]:
        if returned["structure"] is not None:
            returned["structure"] = _to_json(returned["structure"])
    return row


def _to_json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)


def foreign_file(path: Path, error: Exception) -> str:
    """What is said of a file that is not of this layout."""
    return f"{path}: not a file of this version of toolbank ({error})."


def _damaged(path: Path, error: Exception) -> str:
    return (
        f"{path}: damaged or not a parquet file ({error}). "
        "The command that wrote it makes it again."
    )


def _tool_schema() -> pa.Schema:
    import pyarrow as pa

    records: dict[str, type[Record]] = {
        "returns": Returned,
        "raises": Raised,
        "see_also": SeeAlso,
        "versions": VersionNote,
    }
    lists = {name: pa.list_(_struct(record)) for name, record in records.items()}
    return _schema(Tool, **lists, aliases=pa.list_(pa.string()))


def _query_schema() -> pa.Schema:
    import pyarrow as pa

    texts = pa.list_(pa.string())
    provenance = _struct(
        Provenance, attempt=pa.int64(), seed=pa.int64(), requests=texts
    )
    return _schema(Query, tools=texts, provenance=provenance)


def _attempt_schema() -> pa.Schema:
    import pyarrow as pa

    return _schema(AttemptRow, attempt=pa.int64(), requests=pa.list_(pa.string()))


def _schema(record: type[Record], **columns: pa.DataType) -> pa.Schema:
    """The fields of a record as columns; what is not in `columns` is text, or JSON as text."""
    import pyarrow as pa

    return pa.schema(
        [(name, columns.get(name, pa.string())) for name in record.model_fields]
    )


def _struct(record: type[Record], **fields: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    return pa.struct(list(_schema(record, **fields)))


def _write_rows(path: Path, rows: Iterable[dict[str, Any]], schema: pa.Schema) -> None:
    """Write rows as they come, a row group at a time, so that no more of them are in memory."""
    from pyarrow import parquet

    left = iter(rows)
    with (
        atomic_path(path) as temporary,
        parquet.ParquetWriter(temporary, schema, compression="zstd") as file,
    ):
        while group := list(islice(left, _ROW_GROUP)):
            file.write_table(_make_table(group, schema))


def _make_table(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """A table of rows, read from JSON.

    From Python's own objects pyarrow would import pandas first, which takes about a second.
    """
    import pyarrow as pa
    from pyarrow import json as reader

    lines = b"\n".join(json.dumps(row).encode() for row in rows)
    return reader.read_json(
        pa.BufferReader(lines),
        reader.ReadOptions(use_threads=False, block_size=len(lines) + 1),
        reader.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
    )


def _read_records(
    path: Path,
    kind: type[_R],
    is_wanted: Callable[[dict[str, Any]], bool] = lambda _: True,
) -> Iterator[_R]:
    for row in filter(is_wanted, _read_rows(path)):
        try:
            yield kind.model_validate(row)
        except ValidationError as error:
            raise InputError(foreign_file(path, error)) from error


def _read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Rows as they are asked for; a row group is in memory."""
    from pyarrow import ArrowException, parquet

    if not path.is_file():
        raise InputError(f"{path}: no such file.")
    try:
        with parquet.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                yield from file.read_row_group(group).to_pylist()
    except (ArrowException, OSError) as error:
        raise InputError(_damaged(path, error)) from error
