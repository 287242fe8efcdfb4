"""Read ToolLens and COLT's other sets, in the layout of BEIR."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from toolbank.bank.bank import SkipCounter
from toolbank.bank.function_reader import describe_tool, make_parameters
from toolbank.bank.records import Query, Split, Tool
from toolbank.datasets.gather import Dataset, gather
from toolbank.datasets.jsonl import read_relevance
from toolbank.datasets.kind import DatasetConfig, DatasetKind
from toolbank.system.errors import InputError
from toolbank.system.files import get_id, read_lines

_KEYS = (
    "category_name:",
    ", tool_name:",
    ", api_name:",
    ", api_description:",
    ", required_params: ",
    ", optional_params: ",
    ", return_schema: ",
)
_COLUMNS = ("query-id", "corpus-id", "score")


class ToollensConfig(DatasetConfig):
    """A folder of the dataset ToolLens, or any in BEIR's layout: corpus.jsonl, queries.jsonl and qrels."""

    type: Literal["toollens"]


def read_toollens(config: ToollensConfig) -> Dataset:
    """Read corpus.jsonl, queries.jsonl and qrels/{train,dev,test}.tsv (COLT, arXiv 2405.16089).

    A line of the corpus and of the queries has `_id` and `text`; a line of the labels
    query-id, corpus-id and score, below a header. Only labels of test are required. A text in the
    form of ToolBench's documents is split into its parts, and its tool is named TOOL::API.

    Raises:
        InputError: a file can't be read, or has broken lines.
    """
    left_out = SkipCounter()
    tools = _name_tools(config.path / "corpus.jsonl")
    texts = dict(read_lines(config.path / "queries.jsonl", _parse_text))
    queries: list[Query] = []
    labelled: set[str] = set()
    # A query of test stays in test if it is also listed for training.
    for split, path in reversed(_label_files(config.path)):
        used = read_relevance(path, _COLUMNS, texts, tools, left_out, header=True)
        for qid, names in used.items():
            if qid in labelled:
                left_out.add("query: labelled in two splits", f"{path.name}: {qid}")
            else:
                text = texts[qid]
                queries.append(
                    Query(id=qid, query=text, tools=tuple(names), split=split)
                )
        labelled |= used.keys()
    for qid in texts:
        if qid not in labelled:
            left_out.add("query: without a label", qid)
    queries.sort(key=lambda query: query.split == "test")
    return gather(tools.values(), queries, left_out)


def toollens_files(config: ToollensConfig) -> tuple[Path, ...]:
    """List the files that are read."""
    return (
        config.path / "corpus.jsonl",
        config.path / "queries.jsonl",
        *(path for _, path in _label_files(config.path)),
    )


def _label_files(folder: Path) -> list[tuple[Split, Path]]:
    names: tuple[tuple[Split, str], ...] = ("train", "train"), ("validation", "dev")
    files = [(split, folder / "qrels" / f"{name}.tsv") for split, name in names]
    there = [(split, path) for split, path in files if path.is_file()]
    return [*there, ("test", folder / "qrels" / "test.tsv")]


def _parse_text(row: dict[str, Any], number: int) -> tuple[str, str]:
    return _id(row, number), _string(row, "text")


def _parse_document(row: dict[str, Any], number: int) -> tuple[str, Tool]:
    docid, text = _id(row, number), _string(row, "text")
    parts = _split_document(text)
    if parts is None:
        title = str(row.get("title") or "").strip()
        return docid, describe_tool(title or docid, text)
    category, tool, api, description, required, optional, _ = parts
    return docid, describe_tool(
        f"{tool}::{api}",
        f"{description}\n\nCategory: {category}.",
        "operation",
        parameters=make_parameters(_parse_list(required), _parse_list(optional)),
        source=category,
    )


def _name_tools(path: Path) -> dict[str, Tool]:
    """Tools by document; if several have one name, all but the first end in the document's id."""
    tools: dict[str, Tool] = {}
    taken: set[str] = set()
    for docid, tool in read_lines(path, _parse_document):
        if docid in tools:
            raise InputError(f"{path}: two documents have the _id {docid!r}.")
        name = tool.name if tool.name not in taken else f"{tool.name} #{docid}"
        taken.add(name)
        tools[docid] = tool.model_copy(update={"name": name})
    return tools


def _split_document(text: str) -> list[str] | None:
    """The values between the keys of a document, or None if it has another form."""
    if not text.startswith(_KEYS[0]):
        return None
    values, rest = [], text[len(_KEYS[0]) :]
    for key in _KEYS[1:]:
        value, found, rest = rest.partition(key)
        if not found:
            return None
        values.append(value.strip())
    return [*values, rest.strip()]


def _parse_list(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return []


def _id(row: dict[str, Any], number: int) -> str:
    if "_id" not in row:
        raise ValueError('no "_id"')
    return get_id({"id": row["_id"]}, number)


def _string(row: dict[str, Any], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str):
        raise ValueError(f'"{key}" is missing or not a string')
    return value


KIND = DatasetKind(ToollensConfig, read_toollens, toollens_files)
