"""Read a table of requests, and a file that describes the tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from toolbank.bank.bank import SkipCounter
from toolbank.bank.files import read_tools
from toolbank.bank.function_reader import find_functions, read_entry
from toolbank.bank.records import Query, Tool
from toolbank.datasets.gather import Dataset, gather
from toolbank.datasets.kind import SPLITS, DatasetConfig, DatasetKind
from toolbank.datasets.rows import read_rows
from toolbank.system.errors import InputError
from toolbank.system.files import read_json
from toolbank.system.text import decode_json


class TableConfig(DatasetConfig):
    """A table of requests, and a file that describes the tools."""

    type: Literal["table"]
    path: Path = Field(description="table with the columns query and tools")
    tools: Path = Field(description="list of functions, or the tools.parquet of a run")


def read_requests_table(config: TableConfig) -> Dataset:
    """Read a table (.csv, .tsv, .parquet, .jsonl) with the columns `query` and `tools`.

    The tools of a request are separated by ";", or are a list. Columns `id` and `split` are
    optional.

    Raises:
        InputError: a file can't be read, or lacks a column.
    """
    left_out = SkipCounter()
    queries: list[Query] = []
    for number, (place, row) in enumerate(read_rows(config.path), start=1):
        for column in ("query", "tools"):
            if row.get(column) is None:
                raise InputError(
                    f"{place}: no {column!r}; the columns are {', '.join(row)}."
                )
        queries.append(
            Query(
                id=str(row.get("id") or f"line-{number}"),
                query=str(row["query"]).strip(),
                tools=tuple(_split_names(row["tools"])),
                split=SPLITS.get(str(row.get("split"))),
            )
        )
    return gather(_read_catalogue(config.tools, left_out), queries, left_out)


def _split_names(value: Any) -> list[str]:
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = decode_json(value)
    names = value if isinstance(value, list) else str(value).split(";")
    return [str(name).strip() for name in names if str(name).strip()]


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
    elif path.name == "tools.parquet":
        yield from (("", tool) for tool in read_tools(path))
    else:
        yield from ((place, _decode_schema(row)) for place, row in read_rows(path))


def _decode_schema(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row whose parameters may be JSON in a cell."""
    cell = row.get("parameters")
    parameters = decode_json(cell) if isinstance(cell, str) and cell.strip() else cell
    return {**row, "parameters": parameters or {}}


KIND = DatasetKind(
    TableConfig,
    read_requests_table,
    lambda config: (config.path, config.tools),
    folder=lambda config: config.path.parent,
)
