"""Read the entries of a file that lists functions, each with its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolbank.bank.function_reader import find_functions, has_parameters
from toolbank.sources.document_parser import explain_other, parse_document
from toolbank.sources.documents import Documents
from toolbank.system.errors import InputError
from toolbank.system.files import find_separator, has_row_per_line, reading

_TABLES = (".csv", ".tsv", ".parquet")


def read_rows(path: Path, repeated: list[str]) -> Iterator[tuple[str, Any]]:
    """Iterate over places and entries of a file, such as "line 3", "/tools/7" or "row 12".

    An entry that can't be parsed is an InputError. The places of repeated keys, of which the last
    counts, are appended to `repeated`.

    Raises:
        InputError: the file can't be read, or lists no functions.
    """
    if path.suffix.lower() in _TABLES:
        yield from _table_rows(path, repeated)
    elif path.suffix.lower() in (".jsonl", ".ndjson") or has_row_per_line(path):
        yield from _lines(path, repeated)
    else:
        documents = Documents()
        content = documents.open(str(path)).content
        repeated += documents.repeated
        entries = [*find_functions(content)]
        is_one = [pointer for pointer, _ in entries] == [""]
        is_sure = has_parameters(content) and "kind" not in content
        may_be_other = not entries or (is_one and not is_sure)
        if may_be_other and (other := explain_other(content)):
            raise InputError(f"{path}: it is no list of functions: {other}")
        for pointer, entry in entries:
            yield pointer or "/", entry


def _parse_json(data: bytes, place: str, what: str, repeated: list[str]) -> Any:
    if data.lstrip()[:1] not in (b"{", b"["):
        raise InputError(f"{what}: not a JSON object.")
    content, pointers = parse_document(data, what)
    repeated += [f"{place}{pointer}" for pointer in pointers]
    return content


def _lines(path: Path, repeated: list[str]) -> Iterator[tuple[str, Any]]:
    with reading(path), path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            place = f"line {number}"
            try:
                content = _parse_json(line, place, "the line", repeated)
            except InputError as error:
                yield place, error
                continue
            yield from _find_in_row(place, content)


def _find_in_row(place: str, row: Any) -> Iterator[tuple[str, Any]]:
    for pointer, entry in find_functions([row]):
        inner = pointer.removeprefix("/0")
        yield f"{place}{inner and ', '}{inner}", entry


def _table_rows(path: Path, repeated: list[str]) -> Iterator[tuple[str, Any]]:
    import polars as pl

    try:
        if path.suffix.lower() == ".parquet":
            table = pl.read_parquet(path)
        else:
            table = pl.read_csv(
                path, infer_schema=False, separator=find_separator(path)
            )
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        said = " ".join(str(error).split())[:300]
        raise InputError(
            f"{path}: cannot be read as a table ({said}). Check that it is {path.suffix[1:]}; CSV has "
            "to be UTF-8."
        ) from error
    lowered = [column.strip().lower() for column in table.columns]
    if len({*lowered}) == len(lowered):
        table.columns = lowered
    lacking = {"name", "description"} - set(table.columns)
    inside = {"tools", "functions", "function"} & set(table.columns)
    if lacking and not inside:
        raise InputError(
            f"{path}: it lacks the column {' and '.join(sorted(lacking))} (it has "
            f"{', '.join(table.columns)[:300]}). A table of functions has name and description, "
            "and may have parameters (a JSON Schema as text)."
        )
    for number, row in enumerate(table.iter_rows(named=True), 1):
        entry = _without_nulls(row)
        schema, place = entry.get("parameters"), f"row {number}"
        if lacking:
            yield from _find_in_row(place, entry)
            continue
        try:
            if isinstance(schema, str):
                text, what = schema.encode(), "its parameters"
                entry["parameters"] = _parse_json(text, place, what, repeated)
        except InputError as error:
            yield place, error
        else:
            yield place, entry


def _without_nulls(value: Any) -> Any:
    """A value without the keys that only other rows of a parquet file have."""
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {k: _without_nulls(one) for k, one in value.items() if one is not None}
