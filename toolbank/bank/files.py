"""Read and write the parquet files of a bank, a row group at a time, as records or polars frames."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

from pydantic import ValidationError

from toolbank.bank.records import Ask, AttemptRecord, Query, Record, Tool
from toolbank.config.explain import first_problem
from toolbank.system.errors import InputError
from toolbank.system.files import atomic_path

if TYPE_CHECKING:
    import polars as pl


_JSON = ("parameters", "output_schema", "annotations", "call")
"""Columns of tools whose objects have no fixed fields."""


def make_schema(kind: type[Record]) -> dict[str, pl.DataType]:
    """Return the columns of a kind of record; objects without fixed fields are JSON texts."""
    import polars as pl

    return {
        field.alias or name: pl.String()
        if name in _JSON
        else _column_type(field.annotation)
        for name, field in kind.model_fields.items()
    }


def make_frame(kind: type[Record], records: Iterable[Record]) -> pl.DataFrame:
    """Make a frame with a row per record."""
    import polars as pl

    rows = [make_row(record) for record in records]
    return pl.DataFrame(rows, schema=make_schema(kind))


def make_row(record: Record) -> dict[str, Any]:
    """Make a row of plain values; objects without fixed fields become JSON texts."""
    row = record.model_dump(by_alias=True)
    if isinstance(record, Tool):
        for name in _JSON:
            row[name] = None if row[name] is None else _to_json(row[name])
        for returned in row["returns"]:
            if returned["structure"] is not None:
                returned["structure"] = _to_json(returned["structure"])
    return row


def parse_row(kind: type[Record], row: dict[str, Any]) -> dict[str, Any]:
    """Parse the JSON texts of `make_row`, and drop a column of earlier versions.

    Raises:
        KeyError, TypeError, ValueError: the row has another layout.
    """
    if kind is Tool:
        row.pop("prompt_name", None)
        for name in _JSON:
            if row.get(name) is not None:
                row[name] = json.loads(row[name])
        for returned in row["returns"]:
            if returned.get("structure") is not None:
                returned["structure"] = json.loads(returned["structure"])
    return row


def _column_type(annotation: Any) -> pl.DataType:
    import polars as pl

    options = [one for one in get_args(annotation) if one is not NoneType]
    if get_origin(annotation) is tuple:
        return pl.List(_column_type(options[0]))
    if NoneType in get_args(annotation):
        return _column_type(options[0])
    if isinstance(annotation, type) and issubclass(annotation, Record):
        return pl.Struct(make_schema(annotation))
    numbers = {int: pl.Int64(), float: pl.Float64()}
    return numbers.get(annotation, pl.String())


def _to_json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)


_ROW_GROUP = 4096
# Rows per frame that polars gets: it takes several frames ahead of what it writes.
_FRAME = 256

_R = TypeVar("_R", bound=Record)


def write_tools(path: Path, tools: Iterable[Tool]) -> None:
    """Write tools to a parquet file, atomically; same tools, same bytes."""
    write_records(path, Tool, tools)


def write_queries(path: Path, queries: Iterable[Query]) -> None:
    """Write queries to a parquet file, atomically; same queries, same bytes.

    At most a few thousand are in memory.
    """
    write_records(path, Query, queries)


def write_asks(path: Path, asks: Iterable[Ask]) -> None:
    """Write asks as `write_queries` writes queries."""
    write_records(path, Ask, asks)


def write_attempts(path: Path, attempts: Iterable[AttemptRecord]) -> None:
    """Write attempts as `write_queries` writes queries."""
    write_records(path, AttemptRecord, attempts)


def read_tools(path: Path) -> tuple[Tool, ...]:
    """Read a tools.parquet; fields that an older layout lacks are empty.

    Raises:
        InputError: the file is missing, damaged, or has another layout.
    """
    return tuple(read_records(path, Tool))


def read_queries(path: Path) -> tuple[Query, ...]:
    """Read a queries.parquet.

    Raises:
        InputError: the file is missing, damaged, or has another layout.
    """
    return tuple(read_records(path, Query))


def read_asks(path: Path) -> tuple[Ask, ...]:
    """Read an asks.parquet; without the file there are none.

    Raises:
        InputError: the file is damaged, or has another layout.
    """
    return tuple(read_records(path, Ask)) if path.exists() else ()


def read_query(path: Path, name: str) -> Query | None:
    """Find a query in a queries.parquet by its id.

    Raises:
        InputError: as `read_queries`.
    """
    return next(read_records(path, Query, id=name), None)


def read_attempts(path: Path) -> Iterator[AttemptRecord]:
    """Iterate over the attempts of an attempts.parquet.

    Raises:
        InputError: the file is missing, damaged, or has another layout.
    """
    return read_records(path, AttemptRecord)


def read_attempt(path: Path, number: int) -> AttemptRecord | None:
    """Find an attempt in an attempts.parquet by its number.

    Raises:
        InputError: as `read_attempts`.
    """
    return next(read_records(path, AttemptRecord, attempt=number), None)


def read_frame(path: Path, **values: Any) -> pl.DataFrame:
    """Read the rows of a parquet file, or those with the given values of columns.

    Raises:
        InputError: the file is missing, damaged, or has no such column.
    """
    return _collect(path, _scan(path).filter(**values) if values else _scan(path))


def read_frames(path: Path) -> Iterator[pl.DataFrame]:
    """Iterate over a parquet file, some thousand rows at a time.

    Raises:
        InputError: the file is missing or damaged.
    """
    import polars as pl

    rows = _scan(path)
    count = _collect(path, rows.select(pl.len())).item()
    for start in range(0, count, _ROW_GROUP):
        yield _collect(path, rows.slice(start, _ROW_GROUP))


def read_column(path: Path, name: str) -> pl.Series:
    """Read one column of a parquet file, without the others.

    Raises:
        InputError: the file is missing, damaged, or has no such column.
    """
    return _collect(path, _scan(path).select(name))[name]


def explain_foreign_file(path: Path, error: Exception) -> str:
    """Write the message that a file has another layout."""
    why = first_problem(error) if isinstance(error, ValidationError) else error
    return f"{path}: not a file of this version of toolbank ({why})."


def write_records(path: Path, kind: type[_R], records: Iterable[_R]) -> None:
    """Write records to a parquet file, atomically, without having all in memory."""
    from polars.exceptions import PolarsError
    from polars.io.plugins import register_io_source

    left = iter(records)

    def make_frames(*_: object) -> Iterator[pl.DataFrame]:
        while some := list(islice(left, _FRAME)):
            yield make_frame(kind, some)

    rows = register_io_source(make_frames, schema=make_schema(kind))
    # Polars would open a path in its own thread, perhaps after the rows failed, so it gets an open
    # file.
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        try:
            rows.sink_parquet(file, compression="zstd", row_group_size=_ROW_GROUP)
        except PolarsError as error:
            # An error of the system, such as a full disk, is only in the text.
            found = re.search(r"\(os error (\d+)\)", str(error))
            if found is None:
                raise
            raise OSError(int(found[1]), os.strerror(int(found[1]))) from error


def read_records(path: Path, kind: type[_R], **values: Any) -> Iterator[_R]:
    """Iterate over the records of a parquet file, or those with the given values.

    Raises:
        InputError: the file is missing, damaged, or has another layout.
    """
    for frame in [read_frame(path, **values)] if values else read_frames(path):
        for row in frame.iter_rows(named=True):
            try:
                yield kind.model_validate(parse_row(kind, row))
            except (KeyError, TypeError, ValueError) as error:
                raise InputError(explain_foreign_file(path, error)) from error


def _scan(path: Path) -> pl.LazyFrame:
    import polars as pl

    from toolbank.system.folders import is_run_folder
    from toolbank.system.terminal import advise_to_finish

    if not path.is_file():
        run = path.parent.parent
        how = (
            advise_to_finish(run)
            if is_run_folder(run)
            else "Create it with: toolbank run RECIPE"
        )
        raise InputError(f"{path}: no such file. {how}")
    return pl.scan_parquet(path, glob=False)


def _collect(path: Path, rows: pl.LazyFrame) -> pl.DataFrame:
    from polars.exceptions import ColumnNotFoundError, PanicException, PolarsError

    try:
        return rows.collect()
    except ColumnNotFoundError as error:
        raise InputError(explain_foreign_file(path, error)) from error
    except (PolarsError, PanicException, OSError) as error:
        raise InputError(
            f"{path}: damaged or not a parquet file ({error}). "
            "Run the command that wrote it again."
        ) from error
