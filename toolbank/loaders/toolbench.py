"""ToolBench's retrieval data: one folder of G1, G2 or G3 (I1, I2 and I3 of the paper)."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Literal

from toolbank.bank.bank import LeftOut
from toolbank.bank.function_reader import read_api
from toolbank.bank.records import Query, Split, Tool
from toolbank.loaders.gather import Dataset, gather
from toolbank.loaders.kind import DatasetConfig, DatasetKind
from toolbank.loaders.tables import read_table
from toolbank.system.errors import InputError


class ToolbenchConfig(DatasetConfig):
    """One folder of ToolBench's retrieval data."""

    type: Literal["toolbench"]


def read_toolbench(config: ToolbenchConfig) -> Dataset:
    """Read corpus.tsv, {train,test}.query.txt and qrels.{train,test}.tsv (arXiv 2307.16789).

    corpus.tsv has docid and document_content, the JSON of an API; a query file qid and text; a
    label file qid, a number without meaning, docid and label, all without a header. Those of
    train may both be missing. Each document is a tool of its own, named TOOL::API; where several
    have one name, all but the first end in their docid. The files repeat rows, which changes
    nothing.

    Raises:
        InputError: a file can't be read, or has broken lines.
    """
    left_out = LeftOut()
    tools = _read_corpus(config.path / "corpus.tsv", left_out)
    queries = [
        query
        for split in _find_splits(config.path)
        for query in _read_queries(config.path, split, tools, left_out)
    ]
    return gather(tools.values(), queries, left_out)


def toolbench_files(config: ToolbenchConfig) -> tuple[Path, ...]:
    """The files that are read."""
    pairs = [_query_files(config.path, split) for split in _find_splits(config.path)]
    return config.path / "corpus.tsv", *(path for pair in pairs for path in pair)


def _find_splits(folder: Path) -> tuple[Split, ...]:
    """Test, and before it train if any file of it is there."""
    has_train = any(path.is_file() for path in _query_files(folder, "train"))
    return ("train", "test") if has_train else ("test",)


def _query_files(folder: Path, split: Split) -> tuple[Path, Path]:
    """The queries of a split, and their labels."""
    return folder / f"{split}.query.txt", folder / f"qrels.{split}.tsv"


def _read_corpus(path: Path, left_out: LeftOut) -> dict[str, Tool]:
    """Tools by docid."""
    contents: dict[str, str] = {}
    tools: dict[str, Tool] = {}
    names: set[str] = set()
    for number, (docid, content) in read_table(
        path, ("docid", "document_content"), header=True
    ):
        if docid in contents:
            if contents[docid] != content:
                left_out.add("tool: its docid is another's", f"line {number}: {docid}")
            continue
        contents[docid] = content
        tools[docid] = _parse_api(content, docid, names, f"{path}, line {number}")
        names.add(tools[docid].name)
    return tools


def _parse_api(content: str, docid: str, taken: set[str], place: str) -> Tool:
    try:
        api = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{place}: document_content is not valid JSON ({error})."
        ) from error
    if not isinstance(api, dict):
        raise InputError(f"{place}: document_content is not a JSON object.")
    try:
        tool = read_api(api)
    except ValueError as error:
        raise InputError(f"{place}: {error}.") from error
    name = tool.name if tool.name not in taken else f"{tool.name} #{docid}"
    return tool.model_copy(update={"name": name, "source": ", ".join(tool.tags)})


def _read_queries(
    folder: Path, split: Split, tools: dict[str, Tool], left_out: LeftOut
) -> list[Query]:
    path, labels = _query_files(folder, split)
    texts: dict[str, str] = {}
    for number, (qid, text) in read_table(path, ("qid", "query"), header=False):
        if texts.setdefault(qid, text) != text:
            left_out.add("query: its id is another's", f"{path.name}, line {number}")
    used: dict[str, dict[str, None]] = defaultdict(dict)
    columns = ("qid", "unused", "docid", "label")
    for number, (qid, _, docid, label) in read_table(labels, columns, header=False):
        if label.strip() not in ("0", "1"):
            raise InputError(f"{labels}, line {number}: label {label!r}, not 0 or 1.")
        if qid not in texts:
            left_out.add("label: of no query", f"{labels.name}, line {number}")
        elif label.strip() == "0":
            left_out.add("label: 0", f"{labels.name}, line {number}")
        else:
            tool = tools.get(docid)
            used[qid][tool.name if tool else f"document {docid}"] = None
    return [
        Query(id=f"{split}-{qid}", query=text, tools=tuple(used[qid]), split=split)
        for qid, text in texts.items()
    ]


KIND = DatasetKind(ToolbenchConfig, read_toolbench, toolbench_files)
