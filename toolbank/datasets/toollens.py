"""Read ToolLens and COLT's other sets, in the layouts of BEIR and MTEB."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from toolbank.bank.bank import SkipCounter
from toolbank.bank.function_reader import describe_tool, make_parameters
from toolbank.bank.records import Query, Tool
from toolbank.datasets.gather import Dataset, gather, name_apart
from toolbank.datasets.jsonl import read_relevance
from toolbank.datasets.kind import SPLITS, DatasetConfig, DatasetKind, find_split
from toolbank.datasets.rows import (
    find_parts,
    get_name,
    get_value,
    read_document,
    read_rows,
)
from toolbank.system.errors import InputError

_KEYS = (
    "category_name:",
    ", tool_name:",
    ", api_name:",
    ", api_description:",
    ", required_params: ",
    ", optional_params: ",
    ", return_schema: ",
)
_COLUMNS = (
    ("query-id", "query_id", "qid"),
    ("corpus-id", "corpus_id", "docid", "doc_id"),
    ("score", "label", "relevance"),
)
_ORDER = ("test", "validation", "train", None)


class ToollensConfig(DatasetConfig):
    """A folder of the dataset ToolLens, or any of BEIR or MTEB: corpus, queries and qrels."""

    type: Literal["toollens"]


def read_toollens(config: ToollensConfig) -> Dataset:
    """Read corpus, queries and qrels/{train,dev,test} (COLT, arXiv 2405.16089).

    Each is .jsonl, .tsv or .parquet, in one file or in parts (corpus/train-00000-of-00002.parquet).
    A row of the corpus and of the queries has `_id` and `text`, one of the labels `query-id`,
    `corpus-id` and `score`. A text in the form of ToolBench's documents is split into its parts,
    and its tool is named TOOL::API; one that is a function as JSON is read as one.

    Raises:
        InputError: a file can't be read, or has broken lines.
    """
    left_out = SkipCounter()
    tools = name_apart(_read_tools(find_parts(config.path, "corpus")))
    parts = find_parts(config.path, "queries")
    texts = {docid: text for _, docid, text, _ in _read_texts(parts)}
    queries: list[Query] = []
    labelled: set[str] = set()
    # A query of test stays in test if it is also listed for training.
    files = [(find_split(path), path) for path in _label_files(config.path)]
    for split, path in sorted(files, key=lambda file: _ORDER.index(file[0])):
        rows = (
            (place, [get_value(row, place, *names) for names in _COLUMNS])
            for place, row in read_rows(path)
        )
        used = read_relevance(rows, texts, tools, left_out)
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
    corpus, queries = (find_parts(config.path, name) for name in ("corpus", "queries"))
    labels = _label_files(config.path)
    for found, name in ((corpus, "corpus"), (queries, "queries"), (labels, "qrels")):
        if not found:
            raise InputError(
                f"{config.path}: no {name}.jsonl, .tsv or .parquet, and none in {name}/. A dataset "
                "of type toollens needs it."
            )
    return (*corpus, *queries, *labels)


def _label_files(folder: Path) -> list[Path]:
    """The files of labels; in MTEB's layout, they are the configuration `default`, or in data/."""
    found = find_parts(folder, "qrels") or find_parts(folder, "default")
    return found or [path for name in SPLITS for path in find_parts(folder, name)]


def _read_texts(files: list[Path]) -> Iterator[tuple[str, str, str, str]]:
    """The place, id, text and title of each row; "" without a title."""
    for path in files:
        for place, row in read_rows(path):
            docid, text = get_name(row, place, "_id", "id"), row.get("text")
            if not isinstance(text, str):
                raise InputError(f'{place}: "text" is missing or not a string.')
            yield place, docid, text, str(row.get("title") or "").strip()


def _read_document(text: str, name: str) -> Tool:
    parts = _split_document(text)
    if parts is None:
        return read_document(text, name)
    category, tool, api, description, required, optional, _ = parts
    return describe_tool(
        f"{tool}::{api}",
        f"{description}\n\nCategory: {category}.",
        "operation",
        parameters=make_parameters(_parse_list(required), _parse_list(optional)),
        source=category,
    )


def _read_tools(files: list[Path]) -> Iterator[tuple[str, Tool]]:
    known: set[str] = set()
    for place, docid, text, title in _read_texts(files):
        if docid in known:
            raise InputError(f"{place}: another document has the _id {docid!r}.")
        known.add(docid)
        yield docid, _read_document(text, title or docid)


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


KIND = DatasetKind(ToollensConfig, read_toollens, toollens_files)
