"""ToolBench's published conversations: what ToolLLaMA was trained on (arXiv 2307.16789)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from toolbank.bank.bank import LeftOut
from toolbank.bank.function_reader import parse_tool
from toolbank.bank.records import Query, Split, Tool
from toolbank.loaders.gather import Dataset, gather
from toolbank.loaders.kind import DatasetConfig, DatasetKind
from toolbank.system.errors import InputError
from toolbank.system.files import read_json

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
