"""Read a table of requests, and a file that describes the tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from toolbank.bank.bank import SkipCounter
from toolbank.bank.files import read_frame, read_tools
from toolbank.bank.function_reader import find_functions, read_entry
from toolbank.bank.records import Query, Tool
from toolbank.datasets.gather import Dataset, gather
from toolbank.datasets.kind import SPLITS, DatasetConfig, DatasetKind
from toolbank.datasets.rows import find_parts, get_value, read_rows, split_names
from toolbank.system.errors import InputError
from toolbank.system.files import read_json
from toolbank.system.text import decode_json


class TableConfig(DatasetConfig):
    """A table of requests, and a file that describes the tools."""

    type: Literal["table"]
    path: Path = Field(description="the table, or a folder with queries.csv")
    tools: Path | None = Field(
        default=None,
        description="list of functions, or the tools.parquet of a run; default: tools.csv (or "
        "another ending) beside the table",
    )


def read_requests_table(config: TableConfig) -> Dataset:
    """Read a table (.csv, .tsv, .parquet, .json, .jsonl) with the columns `query` and `tools`.

    The tools of a request are separated by ";", or are a list. Columns `id` and `split` are
    optional.

    Raises:
        InputError: a file can't be read, or lacks a column.
    """
    left_out = SkipCounter()
    *tables, catalogue = table_files(config)
    rows = (row for table in tables for row in read_rows(table))
    queries: list[Query] = []
    for number, (place, row) in enumerate(rows, start=1):
        queries.append(
            Query(
                id=str(row.get("id") or f"line-{number}"),
                query=str(get_value(row, place, "query")).strip(),
                tools=tuple(split_names(get_value(row, place, "tools"))),
                split=SPLITS.get(str(row.get("split"))),
            )
        )
    return gather(_read_catalogue(catalogue, left_out), queries, left_out)


def table_files(config: TableConfig) -> tuple[Path, ...]:
    """List the parts of the table, and the file of tools.

    Raises:
        InputError: one is missing.
    """
    folder = _folder(config)
    tables = _find(folder, "queries") if config.path.is_dir() else [config.path]
    return (*tables, config.tools or _find(folder, "tools")[0])


def _folder(config: TableConfig) -> Path:
    return config.path.parent if config.path.is_file() else config.path


def _find(folder: Path, name: str) -> list[Path]:
    found = find_parts(folder, name)
    if not found:
        raise InputError(
            f"{folder}: no {name}.csv or another table. Set dataset.path to a table with the "
            "columns query and tools, and dataset.tools to a file that describes the tools."
        )
    return found


def _read_catalogue(path: Path, left_out: SkipCounter) -> Iterator[Tool]:
    for place, entry in _read_entries(path):
        if isinstance(entry, Tool):
            yield entry
            continue
        try:
            yield read_entry(entry)
        except ValueError as error:
            left_out.add(f"tool: {error}", f"{path}, {place}")


def _read_entries(path: Path) -> Iterator[tuple[str, Any]]:
    if path.suffix == ".json":
        yield from find_functions(read_json(path))
    elif path.suffix == ".parquet" and "kind" in read_frame(path).columns:
        yield from (("", tool) for tool in read_tools(path))
    else:
        yield from ((place, _decode_schema(row)) for place, row in read_rows(path))


def _decode_schema(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row whose parameters may be JSON in a cell."""
    cell = row.get("parameters")
    with suppress(ValueError):
        cell = decode_json(cell) if isinstance(cell, str) and cell.strip() else cell
    return {**row, "parameters": cell or {}}


KIND = DatasetKind(
    TableConfig,
    read_requests_table,
    table_files,
    folder=_folder,
)
