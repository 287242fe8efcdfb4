"""The engines that need no model: recorded replies, and rules."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from toolbank.bank.bank import Bank
from toolbank.llm.chat import (
    AskTask,
    ChatReply,
    ChatRequest,
    Offer,
    Offers,
    Rejection,
    VerifyTask,
)
from toolbank.llm.engines.kind import EngineContext, EngineKind, refuse_settings
from toolbank.requests.asks import KINDS, AsksConfig
from toolbank.requests.rules.engine import RulesAskEngine, RulesEngine
from toolbank.requests.verify import VerifyConfig
from toolbank.requests.write.config import GenerateConfig
from toolbank.requests.write.near_duplicates import DiskList
from toolbank.requests.write.prompts import make_parser
from toolbank.system.errors import InputError
from toolbank.system.files import (
    get_text,
    iterate_lines,
    json_text,
    read_lines,
    sha256_file,
)

if TYPE_CHECKING:
    from toolbank.bank.records import Tool
    from toolbank.llm.chat import Engine
    from toolbank.requests.asks import Kind


def _explain_empty(path: Path) -> InputError:
    return InputError(f"{path}: the file has no recorded replies. Name another file.")


class Recorded:
    """Replay the replies of a file. The name of the file is the name of the model."""

    name = "recorded"
    offers: Offers | None = None

    def __init__(self, path: Path) -> None:
        self.model = path.name
        self.identity = f"recorded {sha256_file(path)}"

    async def close(self) -> None:
        """Do nothing, since nothing is open."""


class RecordedReply(BaseModel):
    """One line of a file of queries: the tools that were offered, and what was written."""

    model_config = ConfigDict(frozen=True)

    offered: tuple[str, ...]
    at_most: int = Field(ge=1)
    draft: str
    query: str
    tools: tuple[str, ...]
    explanation: str = ""


class RecordedQueries(Recorded):
    """Replay queries; attempt i is line i: its offer, its draft and its polished query.

    The replies are in a temporary file, so memory does not grow with them. `missing` counts the
    offered tools that the bank lacks, by name. They are skipped in offers. A reply that uses one is
    replayed unchanged, and the checks reject it.

    Raises:
        InputError: the file can't be read, or a line is not a recorded reply.
    """

    def __init__(self, path: Path, tools: Sequence[Tool]) -> None:
        super().__init__(path)
        self.offers: Offers = self
        # The bank's own names of its tools, by all names.
        self._names = {
            name: tools[i].name for name, i in Bank(tuple(tools)).index.items()
        }
        self._replies = DiskList(RecordedReply)
        self.missing: Counter[str] = Counter()
        for reply in iterate_replies(path):
            self._replies.append(reply)
            self.missing.update(n for n in reply.offered if n not in self._names)

    def offer(self, attempt: int) -> Offer | None:
        """Return the offer of line `attempt`, counted from 0, or None past the last line."""
        if attempt >= len(self._replies):
            return None
        reply = self._replies[attempt]
        there = (self._names[name] for name in reply.offered if name in self._names)
        return Offer(tuple(dict.fromkeys(there)), reply.at_most)

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Replay the draft or the polished query of the request's attempt."""
        reply = self._replies[request.attempt]
        if request.step == "write":
            answer = {
                "declined": not (reply.draft or reply.tools),
                "reason": "",
                "tools": reply.tools,
                "explanation": reply.explanation,
                "draft": reply.draft,
            }
        else:
            same = reply.query == reply.draft
            reason = "It was recorded unchanged." if same else ""
            answer = {"already_good": same, "reason": reason, "query": reply.query}
        return ChatReply(json.dumps(answer, ensure_ascii=False), self.model)


_parse_reply = make_parser(RecordedReply, "offered, at_most, draft, query and tools")


def iterate_replies(path: Path) -> Iterator[RecordedReply]:
    """Read a file of recorded queries, one JSON object a line; empty lines are skipped.

    Raises:
        InputError: the file can't be read or has no line, or a line is not a recorded reply. Broken
            lines are reported after the last line.
    """
    found = False
    for reply in iterate_lines(path, _parse_reply):
        found = True
        yield reply
    if not found:
        raise _explain_empty(path)


class RecordedAsks(BaseModel):
    """One line of a file of asks: a tool, its siblings, and its asks in the order of the kinds."""

    model_config = ConfigDict(frozen=True)

    tool: str
    siblings: tuple[str, ...] = ()
    asks: tuple[str, ...] = Field(min_length=1)


class RecordedAskLines(Recorded):
    """Replay asks; the lines of the file name the siblings.

    `groups` are the tools of each line that the bank has; `missing` counts the others, by name. If
    several lines have a tool, the first counts. `unused` counts the asks that are not replayed, by
    the tool of their line: those of further lines, and those that `keys` has no place for.

    Raises:
        InputError: the file can't be read, a line has no asks, or no line's tool is in the bank.
    """

    def __init__(
        self, path: Path, tools: Sequence[Tool], keys: Mapping[str, Kind]
    ) -> None:
        super().__init__(path)
        index = Bank(tuple(tools)).index
        self.missing: Counter[str] = Counter()
        self.unused: Counter[str] = Counter()
        places = {*_place(keys).values()}
        self._asks: dict[str, tuple[str, ...]] = {}
        groups: list[tuple[str, ...]] = []
        taken: set[str] = set()
        lines = read_lines(path, make_parser(RecordedAsks, "tool and asks, a list"))
        if not lines:
            raise _explain_empty(path)
        for line in lines:
            names = (line.tool, *line.siblings)
            self.missing.update(name for name in names if name not in index)
            own = (tools[index[name]].name for name in names if name in index)
            group = tuple(name for name in dict.fromkeys(own) if name not in taken)
            taken.update(group)
            if group:
                self._asks[group[0]] = line.asks
                groups.append(group)
            elif line.tool not in index:
                continue
            used = places if group else ()
            unused = [n for n, ask in enumerate(line.asks) if ask and n not in used]
            if unused:
                self.unused[line.tool] += len(unused)
        if not groups:
            raise InputError(
                f"{path}: none of its tools, such as {next(iter(self.missing))}, is in the bank."
            )
        self.groups = tuple(groups)

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Replay the asks of the request's tool."""
        task = request.task
        assert isinstance(task, AskTask)
        asks = self._asks.get(task.tool.name, ())
        answer = {
            key: asks[place] if place < len(asks) else ""
            for key, place in _place(task.kinds).items()
        }
        return ChatReply(json.dumps(answer, ensure_ascii=False), self.model)


def _place(kinds: Mapping[str, str]) -> dict[str, int]:
    """The place in a line of the ask of each key: all kinds in their order, repeatedly."""
    turns: Counter[str] = Counter()
    places = {}
    for key, kind in kinds.items():
        places[key] = turns[kind] * len(KINDS) + KINDS.index(kind)
        turns[kind] += 1
    return places


_KEYS = ("query", "needed", "alternatives", "aside")
_TOOLS = ("tool", "for")


class RecordedGrades(Recorded):
    """Replay grades; each line replies to the request whose id is its `query`.

    `queries` are these ids. The grades are stored with the name of the file as their source.

    Raises:
        InputError: as `read_grades_file` does.
    """

    def __init__(self, path: Path, tools: Iterable[Tool]) -> None:
        super().__init__(path)
        self._replies = read_grades_file(path, tools)
        self.queries = frozenset(self._replies)

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Replay the grades of the request."""
        assert isinstance(request.task, VerifyTask)
        return ChatReply(self._replies[request.task.query], self.model)


def read_grades_file(
    path: Path, tools: Iterable[Tool], queries: Collection[str] | None = None
) -> dict[str, str]:
    """Read a file of grades; map each request's id to a reply with the tools' own names.

    With `queries`, a line of another request is refused.

    Raises:
        InputError: the file can't be read, is empty, or has broken lines.
    """
    bank = Bank(tuple(tools))
    names = {name: bank.tools[place].name for name, place in bank.index.items()}
    lines: dict[str, int] = {}

    def parse(row: dict[str, Any], number: int) -> tuple[str, str]:
        query = get_text(row, "query")
        if unknown := [key for key in row if key not in _KEYS]:
            raise ValueError(
                f"unknown key {unknown[0]!r}; there are: {', '.join(_KEYS)}"
            )
        if queries is not None and query not in queries:
            raise ValueError(f"no request of this bank has the id {query!r}")
        if query in lines:
            raise ValueError(f"{query!r} is graded in line {lines[query]} already")
        lines[query] = number
        return query, _check_grades(row, query, names)

    try:
        replies = dict(read_lines(path, parse))
    except InputError as error:
        raise InputError(
            f"{error}\nNothing was changed. A line is "
            '{"query": ID, "needed": [{"tool": NAME, "why": TEXT}], "alternatives": [{"tool": NAME, '
            '"for": NAME, "why": TEXT}], "aside": TEXT}. Only "query", and "needed" or "aside", '
            "are required."
        ) from error
    if not replies:
        raise _explain_empty(path)
    return replies


def _check_grades(row: Mapping[str, Any], query: str, names: Mapping[str, str]) -> str:
    """The grades of a line as JSON, with the tools' own names.

    Raises:
        ValueError: they are wrong.
    """
    from toolbank.requests.verify.gradings import read_grades

    grades = {key: row[key] for key in row if key != "query"}
    for key in ("needed", "alternatives"):
        if isinstance(rows := grades.get(key), list):
            grades[key] = [_use_own_names(one, key, names) for one in rows]
    text = json_text(grades)
    graded = read_grades(ChatReply(text, ""), query, names.keys())
    # A person's file has to be right as a whole.
    problems = [graded] if isinstance(graded, Rejection) else graded[1]
    for problem in problems:
        raise ValueError(f"{problem.reason}: {problem.detail}")
    return text


def _use_own_names(one: Any, key: str, names: Mapping[str, str]) -> Any:
    if not isinstance(one, dict):
        return one
    texts = {name: one[name] for name in _TOOLS if isinstance(one.get(name), str)}
    if "tool" in texts and texts["tool"] not in names:
        raise ValueError(f'"{key}": no tool of this bank is named {texts["tool"]!r}')
    return {**one, **{name: names.get(text, text) for name, text in texts.items()}}


def find_replies(config: Any) -> Path:
    """Return the file that a section of a recipe replays.

    Raises:
        InputError: the section names none.
    """
    replies: Path | None = config.replies
    if replies is None:
        raise InputError(
            f"{config.section}.replies: the recorded engine needs a file of replies. "
            f"Set this key to a JSONL file, or choose another {config.section}.engine."
        )
    return replies


def _replay(config: Any, context: EngineContext) -> Engine:
    path = find_replies(config)
    if isinstance(config, AsksConfig):
        return RecordedAskLines(path, context.tools, config.keys)
    if isinstance(config, VerifyConfig):
        return RecordedGrades(path, context.tools)
    return RecordedQueries(path, context.tools)


def _check_recorded(config: Any) -> None:
    refuse_settings(config)
    find_replies(config)
    if isinstance(config, GenerateConfig) and config.tools_per_query:
        raise InputError(
            "generate.tools_per_query: recorded replies have their own numbers of tools. Remove "
            "this key, or choose another generate.engine."
        )


RECORDED = EngineKind[Any](
    name="recorded",
    make=_replay,
    check=_check_recorded,
    sends=lambda _: (),
    files=lambda config: (config.replies,) if config.replies else (),
    describe=lambda _: "recorded",
    asks_model=False,
    sections=("generate", "asks", "verify"),
    plays_back=True,
    default_queries=None,
    count_queries=lambda config: sum(1 for _ in iterate_replies(find_replies(config))),
)


def _make_rules(config: Any, context: EngineContext) -> Engine:
    if isinstance(config, AsksConfig):
        return RulesAskEngine(context.tools, context.seed)
    return RulesEngine(context.tools, config, context.seed)


RULES = EngineKind[Any](
    name="rules",
    make=_make_rules,
    check=refuse_settings,
    sends=lambda _: (),
    describe=lambda _: "rules",
    asks_model=False,
    sections=("generate", "asks"),
    copies_wording=True,
)
