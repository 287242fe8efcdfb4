"""Records as rows of polars frames: one column a field."""

from __future__ import annotations

import json
from collections.abc import Iterable
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args, get_origin

from toolbank.bank.record import Record
from toolbank.bank.records import Tool

if TYPE_CHECKING:
    import polars as pl


_JSON = ("parameters", "output_schema", "annotations", "call")
"""Columns of tools whose objects have no fixed fields."""


def make_schema(kind: type[Record]) -> dict[str, pl.DataType]:
    """The columns of a kind of record: numbers, texts, lists, structs; an object is JSON."""
    import polars as pl

    return {
        field.alias or name: pl.String()
        if name in _JSON
        else _column_type(field.annotation)
        for name, field in kind.model_fields.items()
    }


def make_frame(kind: type[Record], records: Iterable[Record]) -> pl.DataFrame:
    """Records of one kind as a frame, a row a record."""
    import polars as pl

    rows = [make_row(record) for record in records]
    return pl.DataFrame(rows, schema=make_schema(kind))


def make_row(record: Record) -> dict[str, Any]:
    """A record as a row of plain values; what is a JSON object of any keys becomes text."""
    row = record.model_dump(by_alias=True)
    if isinstance(record, Tool):
        for name in _JSON:
            row[name] = None if row[name] is None else _to_json(row[name])
        for returned in row["returns"]:
            if returned["structure"] is not None:
                returned["structure"] = _to_json(returned["structure"])
    return row


def parse_row(kind: type[Record], row: dict[str, Any]) -> dict[str, Any]:
    """What `make_row` turned into text, as objects again; without a column that tools once had.

    Raises:
        KeyError, TypeError, ValueError: the row is of another layout.
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
    return pl.Int64() if annotation is int else pl.String()


def _to_json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)
