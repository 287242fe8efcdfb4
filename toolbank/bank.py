"""Tool, Query, Bank: what a tool-retrieval dataset is made of, and its files."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from toolbank.errors import InputError
from toolbank.files import atomic_path, read_json, write_json

if TYPE_CHECKING:
    import pyarrow as pa

ToolKind = Literal[
    "function", "method", "class", "property", "operation", "object", "module"
]
Split = Literal["train", "validation", "test"]
_MAX_FUNCTION_NAME = 64
_ROW_GROUP = 4096


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


_R = TypeVar("_R", bound=_Record)


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
        raise InputError(_foreign(path, error)) from error


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


def _foreign(path: Path, error: Exception) -> str:
    return f"{path}: not a file of this version of toolbank ({error})."


def _damaged(path: Path, error: Exception) -> str:
    return (
        f"{path}: damaged or not a parquet file ({error}). "
        "The command that wrote it makes it again."
    )


def _tool_schema() -> pa.Schema:
    import pyarrow as pa

    records: dict[str, type[_Record]] = {
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


def _schema(record: type[_Record], **columns: pa.DataType) -> pa.Schema:
    """The fields of a record as columns; what is not in `columns` is text, or JSON as text."""
    import pyarrow as pa

    return pa.schema(
        [(name, columns.get(name, pa.string())) for name in record.model_fields]
    )


def _struct(record: type[_Record], **fields: pa.DataType) -> pa.DataType:
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
            raise InputError(_foreign(path, error)) from error


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
