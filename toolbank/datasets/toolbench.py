"""Read ToolBench's retrieval data and its published conversations."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from toolbank.bank.bank import SkipCounter
from toolbank.bank.function_reader import parse_tool, read_api
from toolbank.bank.records import Query, Split, Tool
from toolbank.datasets.gather import Dataset, gather, name_apart
from toolbank.datasets.jsonl import read_relevance, read_table
from toolbank.datasets.kind import DatasetConfig, DatasetKind
from toolbank.datasets.rows import BROKEN
from toolbank.system.errors import InputError
from toolbank.system.files import read_json
from toolbank.system.text import decode_json

_COLUMNS = ("qid", "unused", "docid", "label")


class ToolbenchConfig(DatasetConfig):
    """The folder G1, G2 or G3 of ToolBench's retrieval data."""

    type: Literal["toolbench"]


def read_toolbench(config: ToolbenchConfig) -> Dataset:
    """Read corpus.tsv, {train,test}.query.txt and qrels.{train,test}.tsv (arXiv 2307.16789).

    corpus.tsv has docid and document_content, the JSON of an API; a query file qid and text; a
    label file qid, an unused number, docid and label, without a header. The two files of train are
    optional. Each document is a tool named TOOL::API; if several have one name, all but the first
    end in their docid. Repeated rows are ignored.

    Raises:
        InputError: a file can't be read, or has broken lines.
    """
    left_out = SkipCounter()
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
    """List test, and before it train if any file of it exists."""
    has_train = any(path.is_file() for path in _query_files(folder, "train"))
    return ("train", "test") if has_train else ("test",)


def _query_files(folder: Path, split: Split) -> tuple[Path, Path]:
    """The queries of a split, and their labels."""
    return folder / f"{split}.query.txt", folder / f"qrels.{split}.tsv"


def _read_corpus(path: Path, left_out: SkipCounter) -> dict[str, Tool]:
    """Tools by docid."""
    contents: dict[str, str] = {}
    tools: dict[str, Tool] = {}
    for number, (docid, content) in read_table(
        path, ("docid", "document_content"), header=True
    ):
        if docid in contents:
            if contents[docid] != content:
                left_out.add("tool: its docid is another's", f"line {number}: {docid}")
            continue
        contents[docid] = content
        tools[docid] = _parse_api(content, f"{path}, line {number}")
    return name_apart(tools.items())


def _parse_api(content: str, place: str) -> Tool:
    try:
        api = decode_json(content)
        if not isinstance(api, dict):
            raise ValueError("it is not a JSON object")
        tool = read_api(api)
    except ValueError as error:
        raise InputError(f"{place}: document_content: {error}.") from error
    return tool.model_copy(update={"source": ", ".join(tool.tags)})


def _read_queries(
    folder: Path, split: Split, tools: dict[str, Tool], left_out: SkipCounter
) -> list[Query]:
    path, labels = _query_files(folder, split)
    texts: dict[str, str] = {}
    for number, (qid, text) in read_table(path, ("qid", "query"), header=False):
        if texts.setdefault(qid, text) != text:
            left_out.add("query: its id is another's", f"{path.name}, line {number}")
    rows = (
        (f"{labels}, line {number}", (qid, docid, label))
        for number, (qid, _, docid, label) in read_table(labels, _COLUMNS, header=False)
    )
    used = read_relevance(rows, texts, tools, left_out)
    return [
        Query(
            id=f"{split}-{qid}",
            query=text,
            tools=tuple(dict.fromkeys(used.get(qid, ()))),
            split=split,
        )
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
    step. ToolBench's script writes each step of a conversation as its own object with all turns up
    to it: the longest of a request with the same APIs is kept, and the others are counted as
    skipped. Not tested on the published files, which are several gigabytes.

    Raises:
        InputError: a file can't be read, or has another form.
    """
    left_out = SkipCounter()
    tools: dict[str, Tool] = {}
    longest: dict[tuple[Split, str, tuple[str, ...]], Query] = {}
    for split, path in zip(_FILES, conversation_files(config), strict=True):
        rows = read_json(path)
        if not isinstance(rows, list):
            raise InputError(f"{path}: not a list of conversations.")
        for number, row in enumerate(rows):
            try:
                query, system = _read_row(row, split, number)
            except BROKEN as error:
                raise InputError(
                    f"{path}, /{number}: not a conversation of ToolBench ({error})."
                ) from error
            try:
                found = list(_read_tools(system))
            except BROKEN:
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
    """Read a request with its steps, and the system's turn."""
    turns = [(turn["from"], str(turn["value"])) for turn in row["conversations"]]
    [first, *_] = [text for speaker, text in turns if speaker == "user"]
    steps = [
        (action[1], f"Call {action[1]} {_find_thought(text)}".strip())
        for speaker, text in turns
        if speaker == "assistant"
        and (action := _ACTION.search(text))
        and action[1] != _FINISH
    ]
    system = next((text for speaker, text in turns if speaker == "system"), "")
    query = Query(
        id=f"{split}-{number}",
        query=first.strip().removesuffix("Begin!").strip(),
        tools=tuple(name for name, _ in steps),
        explanation="\n".join(text for _, text in steps),
        split=split,
    )
    return query, system


def _find_thought(text: str) -> str:
    thought = _THOUGHT.search(text)
    return " ".join(thought[1].split()) if thought else ""


def _read_tools(system: str) -> Iterator[Tool]:
    """Read the APIs that the system's turn lists, without Finish."""
    before, _, listed = system.partition(_APIS)
    start = listed.find("[") if listed else before.find("[{")
    text = (listed or before)[start:] if start >= 0 else "[]"
    for api in ast.literal_eval(text.strip()):
        if api["name"] != _FINISH:
            yield parse_tool(api)


CONVERSATIONS = DatasetKind(ConversationsConfig, read_conversations, conversation_files)
