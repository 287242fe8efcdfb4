"""Read ToolRet's queries and tools."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from toolbank.bank.bank import SkipCounter
from toolbank.bank.function_reader import describe_tool, read_entry
from toolbank.bank.records import Query, Tool
from toolbank.datasets.gather import Dataset, gather
from toolbank.datasets.kind import SPLITS, DatasetConfig, DatasetKind
from toolbank.datasets.rows import ENDINGS, read_rows
from toolbank.system.errors import InputError
from toolbank.system.text import decode_json


class ToolretConfig(DatasetConfig):
    """A folder with queries and tools of ToolRet."""

    type: Literal["toolret"]


def read_toolret(config: ToolretConfig) -> Dataset:
    """Read queries* and tools* of a folder and those in it (ToolRet, arXiv 2503.01763).

    A row of a tool has `id` and `documentation`, a function as JSON or a text. A row of a query has
    `id`, `query` and `labels`, a list of {id, relevance}. If documents share a name, all but the
    first end in their id.

    Raises:
        InputError: a file can't be read, or a row lacks a key.
    """
    left_out = SkipCounter()
    tools: dict[str, Tool] = {}
    taken: set[str] = set()
    for path in _find(config.path, "tools"):
        for place, row in read_rows(path):
            docid, text = _get(row, "id", place), _get(row, "documentation", place)
            if docid in tools:
                left_out.add("tool: its id is another's", f"{place}: {docid}")
                continue
            tool = _read_document(text, docid)
            name = tool.name if tool.name not in taken else f"{tool.name} #{docid}"
            taken.add(name)
            tools[docid] = tool.model_copy(update={"name": name})
    queries: list[Query] = []
    for path in _find(config.path, "queries"):
        for place, row in read_rows(path):
            try:
                used = tuple(_name_relevant(row, tools))
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                raise InputError(
                    f"{place}: labels is not a list of objects with id and relevance."
                ) from error
            text = _get(row, "query", place)
            split = SPLITS.get(str(row.get("split")))
            name = _get(row, "id", place)
            queries.append(Query(id=name, query=text, tools=used, split=split))
    return gather(tools.values(), queries, left_out)


def toolret_files(config: ToolretConfig) -> tuple[Path, ...]:
    """List the files that are read."""
    files = [_find(config.path, name) for name in ("tools", "queries")]
    for found, name in zip(files, ("tools", "queries"), strict=True):
        if not found:
            raise InputError(
                f"{config.path}: no {name}.jsonl or .parquet. A dataset of type toolret needs it."
            )
    for _, row in islice(read_rows(files[0][0]), 1):
        _get(row, "documentation", str(files[0][0]))
    return (*files[0], *files[1])


def _find(folder: Path, name: str) -> list[Path]:
    return sorted(p for p in folder.rglob(f"{name}*.*") if p.suffix in ENDINGS)


def _get(row: Mapping[str, Any], key: str, place: str) -> str:
    if row.get(key) is None:
        raise InputError(f'{place}: no "{key}".')
    return str(row[key])


def _read_document(text: str, docid: str) -> Tool:
    try:
        return read_entry(decode_json(text))
    except ValueError:
        return describe_tool(docid, text)


def _name_relevant(row: Mapping[str, Any], tools: Mapping[str, Tool]) -> list[str]:
    labels = row["labels"]
    labels = decode_json(labels) if isinstance(labels, str) else labels
    ids = [str(label["id"]) for label in labels if label.get("relevance", 1) > 0]
    return [tools[one].name if one in tools else f"document {one}" for one in ids]


KIND = DatasetKind(ToolretConfig, read_toolret, toolret_files)
