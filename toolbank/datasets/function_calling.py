"""Read requests whose rows list the functions that were offered, and the calls that answer them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from toolbank.bank.bank import SkipCounter
from toolbank.bank.function_reader import read_entry
from toolbank.bank.records import Query, Split, Tool
from toolbank.datasets.gather import Dataset, gather
from toolbank.datasets.kind import SPLITS, DatasetConfig, DatasetKind
from toolbank.datasets.rows import read_rows
from toolbank.system.errors import InputError
from toolbank.system.text import decode_json

_ENDINGS = (".json", ".jsonl", ".parquet")
_ANSWERS = "possible_answer"
_SPLIT = re.compile(rf"(?:^|[-_.])({'|'.join(SPLITS)})(?=$|[-_.])")
_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'", re.DOTALL)
_FORMS = "BFCL, xLAM, ToolACE, ToolBench's instructions or chat messages"


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
    "relevant APIs"; chat messages are `messages` and `tools`. Lists may be JSON in a string. Of a
    conversation, the first request and the calls up to the next one are read.

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
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                left_out.add(f"row: {_explain(error)}", place)
                continue
            unlisted = [name for name in parsed.calls if name not in tools]
            if unlisted:
                reason = "query: calls a function that its row does not list"
                left_out.add(reason, f"{place}: {unlisted[0]}")
                continue
            called = dict.fromkeys(tools[name] for name in parsed.calls)
            split = SPLITS.get(str(row.get("split"))) or _find_split(path)
            queries.append(
                Query(id=name, query=parsed.query, tools=tuple(called), split=split)
            )
    return gather(catalogue.tools, queries, left_out)


def function_calling_files(config: FunctionCallingConfig) -> tuple[Path, ...]:
    """List the files that are read."""
    files = _row_files(config)
    answers = [path for path in map(_answer_file, files) if path.is_file()]
    return (*files, *answers)


def _row_files(config: FunctionCallingConfig) -> list[Path]:
    if not config.path.is_dir():
        return [config.path]
    files = (*config.path.glob("*.*"), *config.path.glob("data/*.*"))
    found = sorted(path for path in files if path.suffix in _ENDINGS)
    if not found:
        raise InputError(
            f"{config.path}: no .json, .jsonl or .parquet file with rows of {_FORMS}."
        )
    return found


def _answer_file(path: Path) -> Path:
    return path.parent / _ANSWERS / path.name


def _read_answers(path: Path) -> Iterator[tuple[str, list[str]]]:
    """The names of the functions to call, by the id of a row of BFCL."""
    if path.is_file():
        for _, row in read_rows(path):
            calls = _decode(row["ground_truth"])
            yield str(row["id"]), [name for call in calls for name in _name_calls(call)]


def _name_calls(call: Any) -> list[str]:
    """The functions of a ground truth, which is {NAME: arguments} or the text of a call."""
    return find_calls(f"[{call}]") if isinstance(call, str) else list(call)


def _find_split(path: Path) -> Split | None:
    found = _SPLIT.search(path.stem)
    return SPLITS[found[1]] if found else None


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


def _parse_row(row: Mapping[str, Any], answers: Mapping[str, list[str]]) -> _CallRow:
    if "api_list" in row:
        pairs = _decode(row["relevant APIs"])
        names = ["::".join(map(str, pair[:2])) for pair in pairs]
        return _CallRow(_text(row["query"]), _decode(row["api_list"]), names)
    if "question" in row and "function" in row:
        return _parse_bfcl(row, answers)
    if "answers" in row and "tools" in row:
        calls = [call["name"] for call in _decode(row["answers"])]
        return _CallRow(_text(row["query"]), _decode(row["tools"]), calls)
    if "messages" in row and "tools" in row:
        return _parse_messages(_decode(row["messages"]), _decode(row["tools"]))
    if "system" in row and "conversations" in row:
        turns = _decode(row["conversations"])
        messages = [{"role": turn["from"], "content": turn["value"]} for turn in turns]
        return _parse_messages(messages, _find_list(row["system"]))
    raise ValueError(f"not in a form of {_FORMS}")


def _parse_bfcl(row: Mapping[str, Any], answers: Mapping[str, list[str]]) -> _CallRow:
    turns = _decode(row["question"])
    if isinstance(turns, str):
        turns = [[{"role": "user", "content": turns}]]
    if turns and isinstance(turns[0], Mapping):
        turns = [turns]
    if len(turns) != 1:
        raise ValueError("a conversation of several requests")
    text = "\n".join(turn["content"] for turn in turns[0] if turn["role"] == "user")
    offered = _decode(row["function"])
    functions = [offered] if isinstance(offered, Mapping) else offered
    given = row.get("ground_truth")
    calls = answers.get(str(row["id"]), [])
    if given is not None:
        calls = [name for call in _decode(given) for name in _name_calls(call)]
    return _CallRow(_text(text), functions, calls)


def _parse_messages(messages: list[Any], functions: list[Any]) -> _CallRow:
    """The first request, and the calls of the assistant before the next one."""
    query, calls = "", []
    for message in messages:
        role, content = message["role"], message.get("content")
        if role in ("user", "human"):
            if query:
                break
            query = _text(content)
        elif query and role in ("assistant", "gpt"):
            made = message.get("tool_calls") or []
            calls += [call.get("function", call)["name"] for call in made]
            if not made and isinstance(content, str):
                calls += find_calls(content)
    return _CallRow(query, functions, calls)


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


def _find_list(system: str) -> list[Any]:
    """The first list of objects in a text."""
    start = system.find("[{")
    if start < 0:
        raise ValueError("no list of functions in its system text")
    try:
        functions: list[Any] = json.JSONDecoder().raw_decode(system, start)[0]
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    return functions


def _decode(value: Any) -> Any:
    """A value that may be JSON in a string."""
    return decode_json(value) if _is_json(value) else value


def _is_json(value: Any) -> bool:
    return isinstance(value, str) and value.lstrip()[:1] in ("[", "{")


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
