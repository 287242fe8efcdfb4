"""Lists of functions as a source."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from toolbank.sources.kind import Location, SourceConfig, SourceKind, ToolCollection
from toolbank.system.errors import InputError
from toolbank.system.files import sha256_file
from toolbank.system.numbers import count
from toolbank.system.terminal import one_line


class FunctionsSource(SourceConfig):
    """A file that lists functions.

    JSON or JSONL in the forms of model APIs, MCP, agent libraries, ToolBench, ToolBank and BFCL, or
    CSV or parquet with the columns name, description and optionally parameters.
    """

    type: Literal["functions"] = "functions"
    path: Path = Field(description=".json, .jsonl, .csv or .parquet")

    @property
    def label(self) -> str:
        """The name in messages."""
        return f"functions:{self.name or self.path.name}"

    @property
    def api_name(self) -> str:
        """Its name, or that of the file."""
        return self.name or self.path.stem


_UNREAD = "it can't be read as a function"
_EXAMPLES = 3
_LONGEST = 60
_TOLD = 50
"""Entries whose problem is reported one by one."""
_ENDINGS = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")


def _read_tools(config: FunctionsSource, _: Path) -> ToolCollection:
    from toolbank.bank.function_reader import (
        find_unread_parameters,
        has_parameters,
        read_entry,
    )
    from toolbank.sources.document_parser import explain_other
    from toolbank.sources.functions.rows import read_rows
    from toolbank.sources.tool_list import ToolList

    found = ToolList()
    problems: list[str] = []
    repeated: list[str] = []
    unread = found.left_out.counts
    keys: dict[str, list[str]] = {}
    for place, entry in read_rows(config.path, repeated):
        try:
            if isinstance(entry, InputError):
                raise entry
            if not has_parameters(entry) and (other := explain_other(entry)):
                raise InputError(other.removesuffix("."))
            tool = read_entry(entry).model_copy(update={"source": config.label})
            for key in find_unread_parameters(entry):
                keys.setdefault(key, []).append(tool.name)
            where = f"{tool.name} ({place})"
            found.add(tool, tool.parameters, tool.output_schema, where)
        except (ValueError, InputError, RecursionError) as error:
            found.left_out.add(_UNREAD, place)
            if unread[_UNREAD] <= _TOLD:
                said = " ".join(str(error).split())[:300]
                if isinstance(error, RecursionError):
                    said = "nested too deep"
                problems.append(f"{config.path}, {place}: skipped: {said}")
    if not found.tools:
        raise InputError(
            f"{config.path}: it lists no function that can be read. "
            + (problems[0] + "." if problems else _EXPECTED)
        )
    return ToolCollection(
        tuple(found.tools[name] for name in sorted(found.tools)),
        {"source": config.label, **found.left_out.as_info()},
        problems=tuple(problems),
        notes=(
            *found.left_out.lines(config.label),
            *found.describe_repairs(config.label),
            *([_describe_repeated(config.label, repeated)] if repeated else []),
            *(_describe_unread(config.label, *one) for one in keys.items()),
        ),
        check=found.check,
    )


def _describe_unread(label: str, key: str, names: list[str]) -> str:
    return (
        f"{label}: the key {one_line(key, _LONGEST)!r} of {count(len(names), 'tool')} looks like "
        f"parameters and is not read, such as of {one_line(names[0], _LONGEST)}; call it `parameters`"
    )


def _describe_repeated(label: str, places: list[str]) -> str:
    what = f"repeated keys of objects, of which the last counts ({len(places):,})"
    return f"{label}: {what}, such as {', '.join(places[:_EXAMPLES])}"


_EXPECTED = (
    'A list looks like [{"name": "forecast", "description": "Tell the weather of a day.", '
    '"parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}].'
)


def _content_id(config: FunctionsSource) -> str:
    return f"{config.label}@{sha256_file(config.path)[:16]}"


def _recognise(location: Location) -> FunctionsSource | None:
    """Recognise any file of JSON and any table."""
    if location.path is None or not location.path.is_file():
        return None
    is_one = location.path.suffix.lower() in _ENDINGS
    return FunctionsSource(path=location.path) if is_one else None


KIND = SourceKind(
    FunctionsSource,
    _read_tools,
    _content_id,
    recognise=_recognise,
    takes="a list of functions (.json, .jsonl, .csv or .parquet)",
)
