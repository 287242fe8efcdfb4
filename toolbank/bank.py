"""Tool, Query, Bank: what a tool-retrieval dataset is made of, and its files."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from toolbank.errors import InputError, ToolbankError
from toolbank.files import atomic_path, read_json, write_json

if TYPE_CHECKING:
    import polars as pl

ToolKind = Literal[
    "function", "method", "class", "property", "operation", "object", "module"
]
Split = Literal["train", "validation", "test"]
_MAX_FUNCTION_NAME = 64


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Returned(_Record):
    """One value that a tool gives back; `structure` is its JSON Schema where it is nested."""

    name: str = ""
    type: str = ""
    description: str = ""
    structure: dict[str, Any] | None = None


class Raised(_Record):
    """An exception that a tool raises, or a warning that it gives, and when."""

    type: str
    description: str = ""


class VersionNote(_Record):
    """What a version of the library changed; `parameter` is "" for the whole tool."""

    change: Literal["added", "changed", "deprecated", "removed"]
    version: str
    description: str = ""
    parameter: str = ""


class SeeAlso(_Record):
    """A reference from one tool to another, with the one line that the page says of it."""

    name: str
    description: str = ""


class Tool(_Record):
    """One callable (or indexable, or importable) thing of an API reference.

    `name` is fully qualified and unique in a bank; `aliases` are other names of the same object.
    `parameters` is a JSON Schema of type "object" whose properties stand in signature order.
    `prompt_name` is the neutral name that a writing model sees in place of the identifier.
    """

    name: str
    kind: ToolKind
    summary: str = ""
    description: str = ""
    signature: str = ""
    parameters: dict[str, Any] = Field(
        default_factory=lambda: {"type": "object", "properties": {}}
    )
    returns: tuple[Returned, ...] = ()
    raises: tuple[Raised, ...] = ()
    examples: str = ""
    notes: str = ""
    see_also: tuple[SeeAlso, ...] = ()
    deprecated: str = ""
    versions: tuple[VersionNote, ...] = ()
    url: str = ""
    source: str = ""
    aliases: tuple[str, ...] = ()
    prompt_name: str = ""

    def as_function(self) -> dict[str, Any]:
        """The tool in the function-calling format of chat-completions APIs.

        They take names of at most 64 letters, digits, `_` and `-`. Dots become `_`; a name with
        other signs, or a longer one, ends in a hash of it, so that no two tools share one by that.
        """
        plain = self.name.replace(".", "_")
        name = re.sub(r"[^a-zA-Z0-9_-]", "_", plain)
        if name != plain or len(name) > _MAX_FUNCTION_NAME:
            digest = hashlib.sha256(self.name.encode()).hexdigest()[:8]
            name = f"{name[: _MAX_FUNCTION_NAME - 9]}_{digest}"
        return {
            "type": "function",
            "function": {
                "name": name,
                "description": " ".join(
                    part for part in (self.summary, self.description) if part
                ),
                "parameters": self.parameters,
            },
        }


class Provenance(_Record):
    """Where a query came from: enough to find its prompts and replies in the journal."""

    attempt: int
    engine: str
    model: str
    prompt_hash: str
    seed: int
    requests: tuple[str, ...] = ()


class Query(_Record):
    """A request in a person's words and the tools that serve it, in call order."""

    id: str
    query: str
    draft: str = ""
    tools: tuple[str, ...]
    explanation: str = ""
    domain: str = ""
    split: Split | None = None
    provenance: Provenance | None = None


class AttemptRow(_Record):
    """How an attempt ended, and the keys of its calls in the journal."""

    attempt: int
    outcome: Literal["accepted", "declined", "rejected", "failed"]
    reason: str = ""
    detail: str = ""
    query_id: str | None = None
    requests: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bank:
    """Tools, the queries that use them, and `info`, the content of bank.json."""

    tools: tuple[Tool, ...]
    queries: tuple[Query, ...] = ()
    info: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def index(self) -> dict[str, int]:
        """Position in `tools` of every name; a tool's own name goes before another's alias."""
        positions: dict[str, int] = {}
        for position, tool in enumerate(self.tools):
            for alias in tool.aliases:
                positions.setdefault(alias, position)
        positions.update({tool.name: i for i, tool in enumerate(self.tools)})
        return positions

    def split(self, name: Split) -> tuple[Query, ...]:
        """The queries of one split."""
        return tuple(query for query in self.queries if query.split == name)

    def save(self, folder: Path) -> None:
        """Write tools.parquet, queries.parquet and bank.json, each atomically."""
        write_tools(folder / "tools.parquet", self.tools)
        write_queries(folder / "queries.parquet", self.queries)
        write_json(folder / "bank.json", self.info)

    @classmethod
    def load(cls, folder: Path) -> Bank:
        """Read a bank folder.

        Raises:
            InputError: a file is missing, damaged, or not of this layout.
        """
        tools = read_tools(folder / "tools.parquet")
        queries = read_queries(folder / "queries.parquet")
        info = read_json(folder / "bank.json")
        if not isinstance(info, dict):
            raise InputError(
                _foreign(folder / "bank.json", TypeError("no JSON object"))
            )
        return cls(tools, queries, info)


def write_tools(path: Path, tools: Iterable[Tool]) -> None:
    """Write tools to a parquet file, atomically; same tools, same bytes."""
    rows = [tool.model_dump() for tool in tools]
    for row in rows:
        row["parameters"] = _to_json(row["parameters"])
        for returned in row["returns"]:
            if returned["structure"] is not None:
                returned["structure"] = _to_json(returned["structure"])
    _write_rows(path, rows, _tool_schema())


def write_queries(path: Path, queries: Iterable[Query]) -> None:
    """Write queries to a parquet file, atomically; same queries, same bytes."""
    _write_rows(path, [query.model_dump() for query in queries], _query_schema())


def read_tools(path: Path) -> tuple[Tool, ...]:
    """Read a tools.parquet; what an older layout did not have yet is empty.

    Raises:
        InputError: the file is missing, damaged, or not of this layout.
    """
    rows = _read_rows(path)
    try:
        for row in rows:
            row["parameters"] = json.loads(row["parameters"])
            for returned in row["returns"]:
                if returned.get("structure") is not None:
                    returned["structure"] = json.loads(returned["structure"])
        return tuple(Tool.model_validate(row) for row in rows)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(_foreign(path, error)) from error


def read_queries(path: Path) -> tuple[Query, ...]:
    """Read a queries.parquet.

    Raises:
        InputError: the file is missing, damaged, or not of this layout.
    """
    try:
        return tuple(Query.model_validate(row) for row in _read_rows(path))
    except ValueError as error:
        raise InputError(_foreign(path, error)) from error


def _to_json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)


def _foreign(path: Path, error: Exception) -> str:
    return f"{path}: not a file of this version of toolbank ({error})."


def _tool_schema() -> dict[str, pl.DataType]:
    import polars as pl

    text = pl.String()
    columns: dict[str, pl.DataType] = dict.fromkeys(Tool.model_fields, text)
    columns["returns"] = pl.List(_struct(Returned))
    columns["raises"] = pl.List(_struct(Raised))
    columns["see_also"] = pl.List(_struct(SeeAlso))
    columns["versions"] = pl.List(_struct(VersionNote))
    columns["aliases"] = pl.List(text)
    return columns


def _struct(record: type[_Record]) -> pl.Struct:
    """The fields of a record that holds text, or JSON as text, only."""
    import polars as pl

    return pl.Struct(dict.fromkeys(record.model_fields, pl.String()))


def _query_schema() -> dict[str, pl.DataType]:
    import polars as pl

    text = pl.String()
    columns: dict[str, pl.DataType] = dict.fromkeys(Query.model_fields, text)
    columns["tools"] = pl.List(text)
    columns["provenance"] = pl.Struct(
        {
            "attempt": pl.Int64(),
            "engine": text,
            "model": text,
            "prompt_hash": text,
            "seed": pl.Int64(),
            "requests": pl.List(text),
        }
    )
    return columns


def _write_rows(
    path: Path, rows: Sequence[dict[str, Any]], schema: dict[str, pl.DataType]
) -> None:
    import polars as pl

    frame = pl.DataFrame(rows, schema=schema, orient="row").rechunk()
    with atomic_path(path) as temporary:
        try:
            frame.write_parquet(temporary, compression="zstd")
        except pl.exceptions.PolarsError as error:
            raise ToolbankError(
                f"{path}: can't write ({error}). Make room, and run the command again."
            ) from error


def _read_rows(path: Path) -> list[dict[str, Any]]:
    import polars as pl

    if not path.is_file():
        raise InputError(f"{path}: no such file.")
    try:
        return pl.read_parquet(path).to_dicts()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(
            f"{path}: damaged or not a parquet file ({error}). "
            "The command that wrote it makes it again."
        ) from error
