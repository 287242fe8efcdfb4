"""Read the rows of JSON, JSON Lines, parquet and CSV files."""

from __future__ import annotations

import ast
import csv
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from toolbank.bank.files import read_frame
from toolbank.bank.function_reader import describe_tool, read_entry
from toolbank.bank.records import Tool
from toolbank.system.errors import InputError
from toolbank.system.files import (
    check_sound,
    find_separator,
    get_id,
    has_row_per_line,
    read_json,
    read_lines,
    reading,
)
from toolbank.system.text import decode_json

ENDINGS = (".json", ".jsonl", ".parquet", ".csv", ".tsv")
"""The files that `read_rows` reads."""
# Errors of a row of another form, and of Python's reader of literals.
BROKEN = (
    *(ValueError, LookupError, TypeError, AttributeError, OverflowError),
    *(SyntaxError, RecursionError, MemoryError),
)


_TEXT = r"'(?:[^'\\\n]|\\['\"\\])*+'|\"(?:[^\"\\\n]|\\['\"\\])*+\""
_QUOTED = re.compile(_TEXT)
_LISTED = re.compile(rf"\s*\[(?:\s*(?:{_TEXT})\s*,?)*+\s*\]\s*")


def find_parts(folder: Path, name: str) -> list[Path]:
    """List the files of a table, all with one ending, here or in data/.

    They are NAME.*, or its shards NAME-*.* or NAME/*.*.
    """
    for pattern in (f"{name}.*", f"{name}[-_]*.*", f"{name}/*.*"):
        if found := find_tables(folder, pattern):
            return [path for path in found if path.suffix == found[0].suffix]
    return []


def find_tables(folder: Path, pattern: str) -> list[Path]:
    """List the files that `read_rows` reads, by their names, here and in data/."""
    files = (*folder.glob(pattern), *folder.glob(f"data/{pattern}"))
    return sorted(path for path in files if path.suffix in ENDINGS)


def read_literal(text: str) -> Any:
    """Read a value as JSON, or as Python writes it.

    Raises:
        ValueError: it is neither.
    """
    try:
        return decode_json(text)
    except ValueError:
        with suppress(*BROKEN):
            return ast.literal_eval(text)
        raise


def decode(value: Any) -> Any:
    """Read a list or an object that may be in a string."""
    is_text = isinstance(value, str) and value.lstrip()[:1] in ("[", "{")
    return read_literal(value) if is_text else value


def find_value(row: Mapping[str, Any], *names: str) -> Any:
    """Find the value of the first of some columns that a row has; None if it has none."""
    return next((row[name] for name in names if row.get(name) is not None), None)


def get_value(row: Mapping[str, Any], place: str, *names: str) -> Any:
    """Get a value as `find_value` does.

    Raises:
        InputError: the row has no such column.
    """
    value = find_value(row, *names)
    if value is None:
        has = f"the columns are {', '.join(row)}" if row else "it is empty"
        raise InputError(f'{place}: no "{names[0]}"; {has}.')
    return value


def get_name(row: Mapping[str, Any], place: str, *names: str) -> str:
    """Get an id, a string or a number, as `get_value` does.

    Raises:
        InputError: the row has no such column, or another value in it.
    """
    value = get_value(row, place, *names)
    try:
        return get_id({"id": value}, 0)
    except ValueError as error:
        raise InputError(f"{place}: {error}.") from error


def read_document(content: Any, name: str) -> Tool:
    """Read a document: a function, also as JSON, or a text about the tool of this name."""
    with suppress(ValueError):
        return read_entry(decode_json(content) if isinstance(content, str) else content)
    return describe_tool(name, str(content))


def split_names(value: Any) -> list[str]:
    """Read the names in a cell: a list, also as JSON or Python writes it, or texts separated by semicolons."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = decode_json(value)
        except ValueError:
            # pandas writes an array without commas, so that Python would join the texts.
            if _LISTED.fullmatch(value):
                value = [ast.literal_eval(name) for name in _QUOTED.findall(value)]
    names = value if isinstance(value, list) else str(value).split(";")
    return [str(name).strip() for name in names if str(name).strip()]


def read_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Iterate over the rows of a file, each after its place, such as "data.json, row 3".

    A .json file is a list of objects, or has an object per line. The first line of a table names
    its columns.

    Raises:
        InputError: the file can't be read, or a row is not an object.
    """
    if path.suffix == ".jsonl" or (path.suffix == ".json" and has_row_per_line(path)):
        yield from read_lines(path, lambda row, n: (f"{path}, line {n}", row))
        return
    if path.suffix in (".csv", ".tsv"):
        yield from _read_csv(path)
        return
    is_parquet = path.suffix == ".parquet"
    rows = read_frame(path).to_dicts() if is_parquet else read_json(path)
    if not isinstance(rows, list):
        raise InputError(f"{path}: not a list of rows.")
    for number, row in enumerate(rows, start=1):
        place = f"{path}, row {number}"
        if not isinstance(row, dict):
            raise InputError(f"{place}: not an object with columns.")
        try:
            check_sound(row)
        except ValueError as error:
            raise InputError(f"{place}: {error}.") from error
        yield place, row


def _read_csv(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    rows = read_cells(path, find_separator(path))
    _, names = next(rows, (1, []))
    for number, row in rows:
        place = f"{path}, line {number}"
        if len(row) != len(names):
            raise InputError(
                f"{place}: {len(row)} values, and the first line has {len(names)} columns."
            )
        yield place, dict(zip(names, row, strict=True))


def read_cells(path: Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Read the rows of a table that are not empty, each with the number of its last line.

    Raises:
        InputError: the file can't be read, or is no table.
    """
    csv.field_size_limit(sys.maxsize)
    try:
        with reading(path), path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=separator, strict=True)
            yield from ((reader.line_num, row) for row in reader if row)
    except csv.Error as error:
        raise InputError(
            f"{path}, line {reader.line_num}: not a table ({error})."
        ) from error
