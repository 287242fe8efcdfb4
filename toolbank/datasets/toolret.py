"""Read ToolRet's queries and tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from toolbank.bank.bank import SkipCounter
from toolbank.bank.records import Query
from toolbank.datasets.gather import Dataset, gather, name_apart
from toolbank.datasets.kind import SPLITS, DatasetConfig, DatasetKind, find_split
from toolbank.datasets.rows import (
    BROKEN,
    ENDINGS,
    decode,
    get_name,
    get_value,
    read_document,
    read_rows,
)
from toolbank.system.errors import InputError


class ToolretConfig(DatasetConfig):
    """A folder with queries and tools of ToolRet."""

    type: Literal["toolret"]


def read_toolret(config: ToolretConfig) -> Dataset:
    """Read queries* and tools* of a folder and those in it (ToolRet, arXiv 2503.01763).

    A row of a tool has `id` and `documentation`, a function as JSON or a text. A row of a query has
    `id`, `query` and `labels`, a list of {id, relevance}, which may have the document, too (`doc`).
    If documents share a name, all but the first end in their id.

    Raises:
        InputError: a file can't be read, or a row lacks a key.
    """
    left_out = SkipCounter()
    documents: dict[str, Any] = {}
    for path in _find(config.path, "tools"):
        for place, row in read_rows(path):
            docid = get_name(row, place, "id")
            if docid in documents:
                left_out.add("tool: its id is another's", f"{place}: {docid}")
            documents.setdefault(docid, get_value(row, place, "documentation"))
    labelled: list[tuple[Query, list[str]]] = []
    for path in _find(config.path, "queries"):
        for place, row in read_rows(path):
            try:
                used = list(_find_relevant(row, documents))
            except BROKEN as error:
                raise InputError(
                    f"{place}: labels is not a list of objects with id and relevance."
                ) from error
            text, name = get_value(row, place, "query"), get_name(row, place, "id")
            split = SPLITS.get(str(row.get("split"))) or find_split(path)
            query = Query(id=name, query=str(text), tools=(), split=split)
            labelled.append((query, used))
    tools = name_apart(
        (docid, read_document(content, docid)) for docid, content in documents.items()
    )
    queries = []
    for query, used in labelled:
        names = [tools[d].name if d in tools else f"document {d}" for d in used]
        queries.append(query.model_copy(update={"tools": tuple(names)}))
    return gather(tools.values(), queries, left_out)


def toolret_files(config: ToolretConfig) -> tuple[Path, ...]:
    """List the files that are read."""
    tools, queries = (_find(config.path, name) for name in ("tools", "queries"))
    key, files = ("documentation", tools) if tools else ("labels", queries)
    if not queries:
        raise InputError(
            f"{config.path}: no queries.jsonl or .parquet. A dataset of type toolret needs it."
        )
    for _, row in islice(read_rows(files[0]), 1):
        get_value(row, str(files[0]), key)
    return (*tools, *queries)


def _find(folder: Path, name: str) -> list[Path]:
    return sorted(p for p in folder.rglob(f"{name}*.*") if p.suffix in ENDINGS)


def _find_relevant(row: Mapping[str, Any], documents: dict[str, Any]) -> Iterator[str]:
    """The ids of relevant documents; those in the labels alone are added to the documents."""
    for label in decode(row["labels"]):
        if label.get("doc") is not None:
            documents.setdefault(str(label["id"]), label["doc"])
        if float(label.get("relevance", 1)) > 0:
            yield str(label["id"])


KIND = DatasetKind(ToolretConfig, read_toolret, toolret_files)
