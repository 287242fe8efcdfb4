"""ToolBench's retrieval data and its published conversations."""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from toolbank.bank.bank import LeftOut
from toolbank.bank.function_reader import parse_tool, read_api
from toolbank.bank.records import Query, Split, Tool
from toolbank.datasets.gather import Dataset, gather
from toolbank.datasets.jsonl import read_table
from toolbank.datasets.kind import DatasetConfig, DatasetKind
from toolbank.system.errors import InputError
from toolbank.system.files import read_json


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


_FILES: dict[Split, str] = {
    "train": "toolllama_G123_dfs_train.json",
    "test": "toolllama_G123_dfs_eval.json",
}
_ACTION = re.compile(r"^Action:[ \t]*(\S+)", re.MULTILINE)
_THOUGHT = re.compile(r"Thought:(.*?)^Action:", re.MULTILINE | re.DOTALL)
_FINISH = "Finish"
_APIS = "following APIs:"
# What Python's reader of literals raises, and a row of another form.
_BROKEN = (ValueError, SyntaxError, LookupError, TypeError, RecursionError, MemoryError)


class ConversationsConfig(DatasetConfig):
    """A folder with toolllama_G123_dfs_train.json and toolllama_G123_dfs_eval.json."""

    type: Literal["toolbench-conversations"]
    ordered: bool = Field(
        default=True, description="whether a query's tools stand in the order of calls"
    )


def read_conversations(config: ConversationsConfig) -> Dataset:
    """Read ToolBench's conversations; each assistant turn is a step "Call NAME THOUGHT".

    A file is a list of objects with `id` and `conversations`, a list of turns with `from` (system,
    user, assistant, function) and `value`. The system's turn ends with the APIs as a list in
    Python's notation, an assistant's has "Thought:" and "Action: NAME". The call of Finish is no
    step. As ToolBench's script leaves it, each step of a conversation is an object of its own, with
    all turns up to it: of a request with the same APIs the longest counts, and the others are
    counted. Untried on the published files, which are several gigabytes.

    Raises:
        InputError: a file can't be read, or has another form.
    """
    left_out = LeftOut()
    tools: dict[str, Tool] = {}
    longest: dict[tuple[Split, str, tuple[str, ...]], Query] = {}
    for split, path in zip(_FILES, conversation_files(config), strict=True):
        rows = read_json(path)
        if not isinstance(rows, list):
            raise InputError(f"{path}: not a list of conversations.")
        for number, row in enumerate(rows):
            try:
                query, system = _read_row(row, split, number)
            except _BROKEN as error:
                raise InputError(
                    f"{path}, /{number}: not a conversation of ToolBench ({error})."
                ) from error
            try:
                found = list(_read_tools(system))
            except _BROKEN:
                left_out.add(
                    "query: its list of APIs can't be read", f"{path}, /{number}"
                )
                continue
            for tool in found:
                tools.setdefault(tool.name, tool)
            key = split, query.query, tuple(tool.name for tool in found)
            other = longest.setdefault(key, query)
            if other is not query:
                left_out.add("query: a conversation up to an earlier step", query.id)
                if len(query.tools) > len(other.tools):
                    longest[key] = query
    return gather(tools.values(), longest.values(), left_out)


def conversation_files(config: ConversationsConfig) -> tuple[Path, ...]:
    """The files that are read."""
    return tuple(config.path / name for name in _FILES.values())


def _read_row(row: Any, split: Split, number: int) -> tuple[Query, str]:
    """A request with its steps, and the system's turn."""
    turns = [(turn["from"], str(turn["value"])) for turn in row["conversations"]]
    asked = [text for speaker, text in turns if speaker == "user"]
    steps = [
        _read_step(text)
        for speaker, text in turns
        if speaker == "assistant" and _ACTION.search(text)
    ]
    steps = [(name, text) for name, text in steps if name != _FINISH]
    system = next((text for speaker, text in turns if speaker == "system"), "")
    query = Query(
        id=f"{split}-{number}",
        query=asked[0].strip().removesuffix("Begin!").strip(),
        tools=tuple(name for name, _ in steps),
        explanation="\n".join(text for _, text in steps),
        split=split,
    )
    return query, system


def _read_step(text: str) -> tuple[str, str]:
    found = _ACTION.search(text)
    assert found is not None
    thought = _THOUGHT.search(text)
    said = " ".join(thought[1].split()) if thought else ""
    return found[1], f"Call {found[1]} {said}".strip()


def _read_tools(system: str) -> Iterator[Tool]:
    """The APIs that the system's turn lists, but for Finish."""
    told, _, listed = system.partition(_APIS)
    start = listed.find("[") if listed else told.find("[{")
    text = (listed or told)[start:] if start >= 0 else "[]"
    for api in ast.literal_eval(text.strip()):
        if api["name"] != _FINISH:
            yield parse_tool(api)


CONVERSATIONS = DatasetKind(ConversationsConfig, read_conversations, conversation_files)
