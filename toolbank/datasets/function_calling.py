"""Read requests whose rows list the functions that were offered, and the calls that answer them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from toolbank.bank.bank import SkipCounter
from toolbank.bank.function_reader import read_entry
from toolbank.bank.records import Query, Tool
from toolbank.datasets.gather import Dataset, gather
from toolbank.datasets.kind import SPLITS, DatasetConfig, DatasetKind, find_split
from toolbank.datasets.rows import (
    BROKEN,
    ENDINGS,
    decode,
    find_tables,
    find_value,
    read_literal,
    read_rows,
)
from toolbank.system.errors import InputError

_ANSWERS = "possible_answer"
_REQUESTS = ("query", "question", "instruction", "prompt", "request")
_OFFERED = ("tools", "functions", "function")
_CALLS = ("answers", "answer", "ground_truth", "calls", "tool_calls", "expected")
_TURNS = ("messages", "conversations", "conversation")
_TAGGED = re.compile(
    r"<(tool_call|functioncall)>\s*(.*?)\s*(?:</\1>|<\|endoftext\|>|$)", re.DOTALL
)
_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'", re.DOTALL)
_FORMS = "BFCL, xLAM, ToolACE, ToolBench's instructions or chat messages"
_SEVERAL = "a conversation of several requests"


class FunctionCallingConfig(DatasetConfig):
    """Rows with a request, the functions offered, and the calls that answer it."""

    type: Literal["function-calling"]
    path: Path = Field(description="a file of rows, or a folder of such files")
    ordered: bool = Field(default=True, description="whether tools are in call order")


@dataclass(frozen=True)
class _CallRow:
    query: str
    functions: list[Any]
    calls: list[str]
    """Names of functions, in the order of the calls."""


def read_function_calling(config: FunctionCallingConfig) -> Dataset:
    """Read rows of BFCL, xLAM, ToolACE, ToolBench's instructions, or chat messages with tools.

    A row of BFCL (v1 to v4) has `question` and `function`, and its answer is in the file of the
    same name in the folder possible_answer; one of xLAM has `query`, `tools` and `answers`; one of
    ToolACE `system` and `conversations`; one of ToolBench's instructions `query`, `api_list` and
    "relevant APIs"; chat messages are `messages` and `tools`, also as ShareGPT and Hermes have them.
    Lists may be JSON in a string. Of a conversation, the first request and the calls up to the next
    one are read.

    The same function in several rows is one tool. If a name stands for several functions, all but
    the first end in a number. The split of a row is at `split`, or in the name of its file.

    Raises:
        InputError: a file can't be read, or no row has one of these forms.
    """
    left_out = SkipCounter()
    catalogue = _RowTools()
    queries: list[Query] = []
    for path in _row_files(config):
        answers = dict(_read_answers(_answer_file(path)))
        for place, row in read_rows(path):
            name = f"{path.stem}-{row.get('id', row.get('query_id', len(queries)))}"
            try:
                parsed = _parse_row(row, answers)
                tools = catalogue.add(parsed.functions)
            except BROKEN as error:
                said = _explain(error)
                file = f", in {path.name}" if said == _SEVERAL else ""
                left_out.add(f"row: {said}{file}", place)
                continue
            unlisted = [name for name in parsed.calls if name not in tools]
            if unlisted:
                reason = "query: calls a function that its row does not list"
                left_out.add(reason, f"{place}: {unlisted[0]}")
                continue
            called = dict.fromkeys(tools[name] for name in parsed.calls)
            split = SPLITS.get(str(row.get("split"))) or find_split(path)
            queries.append(
                Query(id=name, query=parsed.query, tools=tuple(called), split=split)
            )
    return gather(catalogue.tools, queries, left_out)


def function_calling_files(config: FunctionCallingConfig) -> tuple[Path, ...]:
    """List the files that are read."""
    files = _row_files(config)
    first = (row for path in files for _, row in islice(read_rows(path), 1))
    if not any(map(_has_form, first)):
        raise InputError(f"{config.path}: no row is in a form of {_FORMS}.")
    answers = [path for path in map(_answer_file, files) if path.is_file()]
    return (*files, *answers)


def _row_files(config: FunctionCallingConfig) -> list[Path]:
    found = find_tables(config.path, "*.*")
    if config.path.is_file() and config.path.suffix in ENDINGS:
        found = [config.path]
    if not found:
        raise InputError(
            f"{config.path}: no {', '.join(ENDINGS)} file with rows of {_FORMS}."
        )
    return found


def _answer_file(path: Path) -> Path:
    return path.parent / _ANSWERS / path.name


def _read_answers(path: Path) -> Iterator[tuple[str, Any]]:
    """The calls, by the id of a row of BFCL."""
    if path.is_file():
        for _, row in read_rows(path):
            yield str(row.get("id")), row.get("ground_truth")


def _name_all(calls: Any) -> list[str]:
    """The functions of a call, or of a list of calls."""
    listed = calls if isinstance(calls, list) else [calls]
    return [name for call in listed for name in _name_calls(call)]


def _name_calls(call: Any) -> list[str]:
    """The functions of a call: {"name": NAME}, {NAME: arguments}, or a text of either kind."""
    if isinstance(call, str):
        return find_calls(f"[{call}]") or [call]
    inner = call.get("function", call)
    name = inner.get("name") if isinstance(inner, Mapping) else inner
    return [name] if isinstance(name, str) else list(call)


def _explain(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"no {error}"
    return str(error) if type(error) is ValueError else "not in the form of its dataset"


class _RowTools:
    """The tools of all rows."""

    def __init__(self) -> None:
        self.tools: list[Tool] = []
        self._names: dict[tuple[str, str], str] = {}
        self._numbers: dict[str, int] = {}

    def add(self, functions: list[Any]) -> dict[str, str]:
        """Add the functions of a row; return the names of their tools by the name in calls."""
        named = {}
        for function in functions:
            tool = read_entry(function)
            key = tool.name, json.dumps(function, sort_keys=True)
            if key not in self._names:
                number = self._numbers[tool.name] = self._numbers.get(tool.name, 0) + 1
                name = tool.name if number == 1 else f"{tool.name} #{number}"
                self._names[key] = name
                self.tools.append(tool.model_copy(update={"name": name}))
            named[tool.name] = self._names[key]
        return named


def _parse_row(row: Mapping[str, Any], answers: Mapping[str, Any]) -> _CallRow:
    if _has_several(row.get("question")):
        raise ValueError(_SEVERAL)
    if not _has_form(row):
        raise ValueError(f"not in a form of {_FORMS}")
    if "api_list" in row:
        pairs = decode(row["relevant APIs"])
        names = ["::".join(map(str, pair[:2])) for pair in pairs]
        return _CallRow(_text(row["query"]), decode(row["api_list"]), names)
    offered = decode(find_value(row, *_OFFERED))
    functions = [offered] if isinstance(offered, Mapping) else offered
    turns = decode(find_value(row, *_TURNS))
    if isinstance(turns, list):
        return _parse_messages(row.get("system"), turns, functions)
    given, question = (decode(find_value(row, *some)) for some in (_CALLS, _REQUESTS))
    if given is None:
        given = decode(answers.get(str(row.get("id")), []))
    return _CallRow(_parse_question(question), functions, _name_all(given))


def _has_form(row: Mapping[str, Any]) -> bool:
    """Whether a row has the keys of one of the forms; answers of BFCL are in another file."""
    if "api_list" in row or find_value(row, *_TURNS) is not None:
        return True
    if _has_several(row.get("question")):
        return True
    has_answer = "question" in row or find_value(row, *_CALLS) is not None
    keys = _REQUESTS, _OFFERED
    return has_answer and all(find_value(row, *some) is not None for some in keys)


def _has_several(question: Any) -> bool:
    """Whether it has turns of several requests; in BFCL, their functions are in other files."""
    turns = question if isinstance(question, list) else []
    return len(turns) > 1 and all(isinstance(turn, list) for turn in turns)


def _parse_question(turns: Any) -> str:
    """A text, messages, or a list of turns of messages, as in BFCL."""
    if isinstance(turns, str):
        return _text(turns)
    if turns and isinstance(turns[0], Mapping):
        turns = [turns]
    if len(turns) != 1:
        raise ValueError(_SEVERAL)
    return _text("\n".join(t["content"] for t in turns[0] if t["role"] == "user"))


def _parse_messages(system: Any, turns: list[Any], functions: Any) -> _CallRow:
    """The first request, and the calls of the assistant before the next one."""
    query, calls = "", list[str]()
    for turn in turns:
        role = turn.get("role", turn.get("from"))
        content = turn.get("content", turn.get("value"))
        if role == "system":
            system = content
        elif role in ("user", "human"):
            if query and _has_only_results(content):
                continue
            if query:
                break
            query = _text(content)
        elif query and role in ("function_call", "tool_call"):
            calls += _name_all(read_literal(content))
        elif query and role in ("assistant", "gpt"):
            made = turn.get("tool_calls") or turn.get("function_call")
            made = made or [*_find_calls_in_parts(content)]
            calls += _name_all(made)
            if not made and isinstance(content, str):
                for _, inner in _TAGGED.findall(content):
                    calls += _name_all(read_literal(inner))
                calls += find_calls(content)
    return _CallRow(
        query, _find_list(system) if functions is None else functions, calls
    )


def _has_only_results(content: Any) -> bool:
    """Whether the parts of a user's message are results of calls, as Anthropic has them."""
    return isinstance(content, list) and not any("text" in part for part in content)


def _find_calls_in_parts(content: Any) -> Iterator[dict[str, Any]]:
    """The calls among the parts of a message of Anthropic, Bedrock or Vercel's AI SDK."""
    for part in content if isinstance(content, list) else ():
        if part.get("type") in ("tool_use", "tool-call"):
            yield {"name": part.get("name", part.get("toolName"))}
        elif "toolUse" in part:
            yield part["toolUse"]


def find_calls(text: str) -> list[str]:
    """Find the names in a list of calls such as `[Tide Table(port="Oban"), today()]`.

    Returns:
        The names in order; none if the text is no such list.
    """
    bare = _QUOTED.sub('""', text).strip()
    if not bare.startswith("["):
        return []
    names, depth, start = [], 0, 1
    for place, sign in enumerate(bare):
        if sign == "(" and depth == 1:
            names.append(bare[start:place].strip(" ,\n\t"))
        depth += (sign in "([{") - (sign in ")]}")
        if sign == ")" and depth == 1:
            start = place + 1
        if depth == 0:
            return names
    return []


def _find_list(system: Any) -> list[Any]:
    """The first list of objects in a text."""
    start = system.find("[{") if isinstance(system, str) else -1
    if start < 0:
        raise ValueError("no list of functions in its system text")
    functions: list[Any] = json.JSONDecoder().raw_decode(system, start)[0]
    return functions


def _text(content: Any) -> str:
    if isinstance(content, list):
        content = "\n".join(part["text"] for part in content if "text" in part)
    if not isinstance(content, str):
        raise ValueError("its request is not a text")
    return content.strip()


KIND = DatasetKind(
    FunctionCallingConfig,
    read_function_calling,
    function_calling_files,
    folder=lambda config: config.path.parent if config.path.is_file() else config.path,
)
