"""The engines that can write asks, among them rules and replies replayed from a file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from toolbank.bank.bank import Bank
from toolbank.config.explain import first_problem
from toolbank.config.registry import Registry
from toolbank.llm.chat import AskTask, ChatReply, ChatRequest, EngineError
from toolbank.llm.engines import OWN
from toolbank.llm.engines.kind import EngineContext, EngineKind, refuse_settings
from toolbank.requests.asks.config import KINDS
from toolbank.requests.rules.engine import choose_things, merge_steps, write_request
from toolbank.requests.rules.wording import Profile, Profiles, say_plainly
from toolbank.requests.write.writers import find_replies
from toolbank.system.errors import InputError
from toolbank.system.files import read_lines, sha256_file

if TYPE_CHECKING:
    from toolbank.bank.records import Tool
    from toolbank.requests.asks.config import AsksConfig, Kind


ASK_WRITERS: Registry[EngineKind[AsksConfig]] = Registry(
    "engine",
    "toolbank.engines",
    EngineKind,
    {
        **OWN,
        "recorded": "toolbank.requests.asks.writers:RECORDED",
        "rules": "toolbank.requests.asks.writers:RULES",
    },
)


def find_ask_writer(config: AsksConfig) -> EngineKind[AsksConfig]:
    """The kind of engine that writes the asks of a recipe.

    Raises:
        InputError: there is none of this name.
    """
    return ASK_WRITERS.find(config.engine, f"{config.section}.engine")


class RecordedAsks(BaseModel):
    """One line of the file: a tool, its siblings, and its asks, the kinds in their order."""

    model_config = ConfigDict(frozen=True)

    tool: str
    siblings: tuple[str, ...] = ()
    asks: tuple[str, ...] = Field(min_length=1)


class RecordedAskEngine:
    """Plays the asks of a file; which tools are siblings is what its lines say.

    `groups` are the lines' tools, as far as the bank has them; `missing` counts, by name, those
    that it lacks. Of a tool that stands in several lines, the first counts; `unused` counts, by
    the tool of their line, the asks that are not played: those of other lines, and of a line
    those that `keys` has no place for.

    Raises:
        InputError: the file can't be read, a line has no asks, or no line's tool is in the bank.
    """

    name = "recorded"
    offers = None

    def __init__(
        self, path: Path, tools: Sequence[Tool], keys: Mapping[str, Kind]
    ) -> None:
        index = Bank(tuple(tools)).index
        self.model = path.name
        self.identity = f"recorded {sha256_file(path)}"
        self.missing: Counter[str] = Counter()
        self.unused: Counter[str] = Counter()
        places = {*_place(keys).values()}
        self._asks: dict[str, tuple[str, ...]] = {}
        groups: list[tuple[str, ...]] = []
        taken: set[str] = set()
        for line in _read(path):
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

    async def close(self) -> None:
        """Nothing is held open."""


def _place(kinds: Mapping[str, str]) -> dict[str, int]:
    """Where in a line the ask of each key is: the kinds in their order, again and again."""
    turns: Counter[str] = Counter()
    places = {}
    for key, kind in kinds.items():
        places[key] = turns[kind] * len(KINDS) + KINDS.index(kind)
        turns[kind] += 1
    return places


def _read(path: Path) -> list[RecordedAsks]:
    lines = read_lines(path, _parse)
    if not lines:
        raise InputError(f"{path}: no recorded asks in this file.")
    return lines


def _parse(row: dict[str, Any], _: int) -> RecordedAsks:
    try:
        return RecordedAsks.model_validate(row)
    except ValidationError as error:
        raise ValueError(
            f"no recorded asks ({first_problem(error)}). It should have tool and asks, a list"
        ) from error


def _make_recorded(config: AsksConfig, context: EngineContext) -> RecordedAskEngine:
    return RecordedAskEngine(
        find_replies(config.section, config.replies), context.tools, config.keys
    )


def _check(config: AsksConfig) -> None:
    refuse_settings(config)
    find_replies(config.section, config.replies)


RECORDED = EngineKind["AsksConfig"](
    name="recorded",
    make=_make_recorded,
    check=_check,
    sends=lambda _: (),
    files=lambda config: (config.replies,) if config.replies else (),
    describe=lambda _: "recorded",
    asks_model=False,
    plays_back=True,
)


VERSION = 2


class RulesAskEngine:
    """Writes plain and terse asks; of another kind, and of a tool that says nothing, none.

    An ask is a function of the tools, the tool, the key and the seed alone. One that was written
    stays where the catalogue changes elsewhere: the tool is the same, and its words still hold.
    """

    name = "rules"
    model = f"rules-asks-{VERSION}"
    offers = None

    def __init__(self, tools: Sequence[Tool], seed: int) -> None:
        self._seed = seed
        self._positions = {tool.name: n for n, tool in enumerate(tools)}
        self._profiles = Profiles(tools)
        # What else an ask follows from is the prompt, which has the tool and its nearest.
        self.identity = f"{self.model}:{seed}"

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Write the asks of the request's tool.

        Raises:
            EngineError: it is no request for asks.
        """
        task = request.task
        if not isinstance(task, AskTask):
            raise EngineError(
                "the rules for asks answer nothing but requests for asks.",
                reason="no-task",
            )
        profile = self._profiles[self._positions[task.tool.name]]
        answer = {
            key: _write(
                kind, profile, Random(f"{self._seed}:ask:{task.tool.name}:{key}")
            )
            for key, kind in task.kinds.items()
        }
        return ChatReply(json.dumps(answer, ensure_ascii=False), self.model)

    async def close(self) -> None:
        """Nothing is held open."""


def _write(kind: str, profile: Profile, random: Random) -> str:
    if profile.is_silent:
        return ""
    if kind == "plain":
        return merge_steps(write_request([profile], random), random)
    if kind == "terse":
        return _write_tersely(profile, random)
    return ""


def _write_tersely(profile: Profile, random: Random) -> str:
    """What is told of a tool first, in plain words and no sentence."""
    told = (phrase for phrase, _ in profile.told if phrase.kind != "fact")
    if (phrase := next(told, None)) is None:
        return ""
    if profile.takes_data:
        phrase = say_plainly(phrase, choose_things(profile, random), random)
    return phrase.text.rstrip(".")


def _make_rules(_: AsksConfig, context: EngineContext) -> RulesAskEngine:
    return RulesAskEngine(context.tools, context.seed)


RULES = EngineKind["AsksConfig"](
    name="rules",
    make=_make_rules,
    check=refuse_settings,
    sends=lambda _: (),
    describe=lambda _: "rules",
    asks_model=False,
    copies_wording=True,
)
