"""The engines that work without a model: replies replayed from a file, and rules."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from toolbank.bank.bank import Bank
from toolbank.config.explain import first_problem
from toolbank.llm.chat import (
    AskTask,
    ChatReply,
    ChatRequest,
    EngineError,
    Offer,
    Offers,
    Rejection,
    VerifyTask,
)
from toolbank.llm.engines.kind import EngineContext, EngineKind, refuse_settings
from toolbank.requests.asks import KINDS, AsksConfig
from toolbank.requests.asks.rules import RulesAskEngine
from toolbank.requests.rules.engine import RulesEngine
from toolbank.requests.verify import VerifyConfig
from toolbank.requests.verify.gradings import read_grades
from toolbank.requests.write.config import GenerateConfig
from toolbank.requests.write.near_duplicates import DiskList
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


class Recorded:
    """Replays the replies of a file, whose name it goes by."""

    name = "recorded"
    offers: Offers | None = None

    def __init__(self, path: Path) -> None:
        self.model = path.name
        self.identity = f"recorded {sha256_file(path)}"

    async def close(self) -> None:
        """Nothing is held open."""


class RecordedReply(BaseModel):
    """One line of the file: what was offered, and what was written."""

    model_config = ConfigDict(frozen=True)

    offered: tuple[str, ...]
    at_most: int = Field(ge=1)
    draft: str
    query: str
    tools: tuple[str, ...]
    explanation: str = ""


class RecordedQueries(Recorded):
    """Attempt i is line i of the file: its offer, its draft and its polished query.

    The replies lie in a temporary file while they are played; memory does not grow with them.
    `missing` counts the offered tools that the bank lacks, by name: they are left out of the
    offers. A reply that uses one is played as it stands, and the checks reject it.

    Raises:
        InputError: the file can't be read, or a line is not a recorded reply.
    """

    offers: Offers

    def __init__(self, path: Path, tools: Sequence[Tool]) -> None:
        names = {name: tools[i].name for name, i in Bank(tuple(tools)).index.items()}
        self._replies = DiskList(RecordedReply)
        self.missing: Counter[str] = Counter()
        for reply in iterate_replies(path):
            self._replies.append(reply)
            self.missing.update(name for name in reply.offered if name not in names)
        super().__init__(path)
        self.offers = RecordedOffers(self._replies, names)

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Play the draft or the polished query of the request's attempt."""
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


class RecordedOffers:
    """The offers that the recorded replies were written for, in the file's order.

    `names` are the bank's own names of its tools, by each name that they go by.
    """

    def __init__(
        self, replies: DiskList[RecordedReply], names: Mapping[str, str]
    ) -> None:
        self._replies = replies
        self._names = names

    def offer(self, attempt: int) -> Offer | None:
        """The offer of line `attempt`, counted from 0, or None past the last line."""
        if attempt >= len(self._replies):
            return None
        reply = self._replies[attempt]
        there = (self._names[name] for name in reply.offered if name in self._names)
        return Offer(tuple(dict.fromkeys(there)), reply.at_most)


def iterate_replies(path: Path) -> Iterator[RecordedReply]:
    """Read a file of recorded replies, one JSON object a line; empty lines are passed over.

    Raises:
        InputError: the file can't be read, has no line, or a line is not a recorded reply; said
            after the last one.
    """
    found = False
    for reply in iterate_lines(path, _parse):
        found = True
        yield reply
    if not found:
        raise InputError(f"{path}: no recorded replies in this file.")


def _parse(row: dict[str, Any], _: int) -> RecordedReply:
    try:
        return RecordedReply.model_validate(row)
    except ValidationError as error:
        raise ValueError(
            f"not a recorded reply ({first_problem(error)}). "
            "It should have offered, at_most, draft, query and tools"
        ) from error


class RecordedAsks(BaseModel):
    """One line of the file: a tool, its siblings, and its asks, the kinds in their order."""

    model_config = ConfigDict(frozen=True)

    tool: str
    siblings: tuple[str, ...] = ()
    asks: tuple[str, ...] = Field(min_length=1)


class RecordedAskLines(Recorded):
    """Plays the asks of a file; which tools are siblings is what its lines say.

    `groups` are the lines' tools, as far as the bank has them; `missing` counts, by name, those
    that it lacks. Of a tool that stands in several lines, the first counts; `unused` counts, by
    the tool of their line, the asks that are not played: those of other lines, and of a line
    those that `keys` has no place for.

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
        for line in _read_asks(path):
            group: list[str] = []
            for name in (line.tool, *line.siblings):
                if name not in index:
                    self.missing[name] += 1
                elif (own := tools[index[name]].name) not in taken:
                    taken.add(own)
                    group.append(own)
            if group:
                self._asks[group[0]] = line.asks
                groups.append(tuple(group))
            elif line.tool not in index:
                continue
            played = places if group else ()
            unused = [n for n, ask in enumerate(line.asks) if ask and n not in played]
            if unused:
                self.unused[line.tool] += len(unused)
        if not groups:
            raise InputError(
                f"{path}: none of its tools, such as {next(iter(self.missing))}, is in the bank."
            )
        self.groups = tuple(groups)

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Play the asks of the request's tool.

        Raises:
            EngineError: it is no request for asks.
        """
        task = request.task
        if not isinstance(task, AskTask):
            raise EngineError(
                "recorded asks answer nothing but requests for asks.", reason="no-task"
            )
        asks = self._asks.get(task.tool.name, ())
        answer = {
            key: asks[place] if place < len(asks) else ""
            for key, place in _place(task.kinds).items()
        }
        return ChatReply(json.dumps(answer, ensure_ascii=False), self.model)


def _place(kinds: Mapping[str, str]) -> dict[str, int]:
    """Where in a line the ask of each key is: the kinds in their order, again and again."""
    turns: Counter[str] = Counter()
    places = {}
    for key, kind in kinds.items():
        places[key] = turns[kind] * len(KINDS) + KINDS.index(kind)
        turns[kind] += 1
    return places


def _read_asks(path: Path) -> list[RecordedAsks]:
    lines = read_lines(path, _parse_asks)
    if not lines:
        raise InputError(f"{path}: no recorded asks in this file.")
    return lines


def _parse_asks(row: dict[str, Any], _: int) -> RecordedAsks:
    try:
        return RecordedAsks.model_validate(row)
    except ValidationError as error:
        raise ValueError(
            f"no recorded asks ({first_problem(error)}). It should have tool and asks, a list"
        ) from error


_KEYS = ("query", "needed", "alternatives", "aside")
_TOOLS = ("tool", "for")


class RecordedGrades(Recorded):
    """Each line of the file is a reply to the request whose id it has as `query`; `queries` are those.

    `model` is the name of the file, as whose the grades are stored.

    Raises:
        InputError: as of `read_grades_file`.
    """

    def __init__(self, path: Path, tools: Iterable[Tool]) -> None:
        super().__init__(path)
        self._replies = read_grades_file(path, tools)
        self.queries = frozenset(self._replies)

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Give the grades of the request.

        Raises:
            EngineError: it is no request for grades.
        """
        task = request.task
        if not isinstance(task, VerifyTask):
            raise EngineError(
                "recorded grades answer nothing but requests for grades.",
                reason="no-task",
            )
        return ChatReply(self._replies[task.query], self.model)


def read_grades_file(
    path: Path, tools: Iterable[Tool], queries: Collection[str] | None = None
) -> dict[str, str]:
    """Read a file of grades: by the id of its request, each line's grades as a reply has them.

    Tools have their own names in the replies. With `queries`, a line of another request is refused.

    Raises:
        InputError: the file can't be read, is empty, or lines are wrong: which and why.
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
            "have to be there."
        ) from error
    if not replies:
        raise InputError(f"{path}: no recorded grades in this file.")
    return replies


def _check_grades(row: Mapping[str, Any], query: str, names: Mapping[str, str]) -> str:
    """The grades of a line, with the tools' own names.

    Raises:
        ValueError: they are wrong.
    """
    grades = {key: row[key] for key in row if key != "query"}
    for key in ("needed", "alternatives"):
        rows = grades.get(key)
        for one in rows if isinstance(rows, list) else ():
            name = one.get("tool") if isinstance(one, dict) else None
            if isinstance(name, str) and name not in names:
                raise ValueError(f'"{key}": no tool of this bank is named {name!r}')
        if isinstance(rows, list):
            grades[key] = [_name_own(one, names) for one in rows]
    text = json_text(grades)
    found = read_grades(ChatReply(text, ""), query, names.keys())
    if isinstance(found, Rejection):
        raise ValueError(f"{found.reason}: {found.detail}")
    return text


def _name_own(one: Any, names: Mapping[str, str]) -> Any:
    if not isinstance(one, dict):
        return one
    return {
        key: names.get(value, value)
        if key in _TOOLS and isinstance(value, str)
        else value
        for key, value in one.items()
    }


def find_replies(config: Any) -> Path:
    """The file that is replayed in a section of a recipe.

    Raises:
        InputError: none is named.
    """
    replies: Path | None = config.replies
    if replies is None:
        raise InputError(
            f"{config.section}.replies: the recorded engine needs the file that it plays. "
            f"Set it to a JSONL file, or choose another {config.section}.engine."
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
            "generate.tools_per_query: what is recorded was asked for already, each reply with "
            "the number of its line. Leave it out, or choose another generate.engine."
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
