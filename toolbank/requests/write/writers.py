"""The engines that can write queries, and replies that are replayed from a file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from toolbank.bank.bank import Bank
from toolbank.config.explain import first_problem
from toolbank.config.registry import Registry
from toolbank.llm.chat import ChatReply, ChatRequest, Offer
from toolbank.llm.engines import OWN
from toolbank.llm.engines.kind import EngineContext, EngineKind, refuse_settings
from toolbank.requests.write.near_duplicates import DiskList
from toolbank.system.errors import InputError
from toolbank.system.files import iterate_lines, sha256_file

if TYPE_CHECKING:
    from toolbank.bank.records import Tool
    from toolbank.llm.chat import Engine
    from toolbank.requests.write.config import GenerateConfig


WRITERS: Registry[EngineKind[GenerateConfig]] = Registry(
    "engine",
    "toolbank.engines",
    EngineKind,
    {
        **OWN,
        "recorded": "toolbank.requests.write.writers:KIND",
        "rules": "toolbank.requests.rules.engine:KIND",
    },
)


def find_writer(config: GenerateConfig) -> EngineKind[GenerateConfig]:
    """The kind of engine that writes the queries of a recipe.

    Raises:
        InputError: there is none of this name.
    """
    return WRITERS.find(config.engine, f"{config.section}.engine")


def load_writer(name: str) -> EngineKind[GenerateConfig] | None:
    """The kind of engine that wrote a bank; None if it came with a package that is gone."""
    try:
        return WRITERS.load(name)
    except InputError:
        return None


def describe_writer(engine: Engine, prompt_hash: str) -> dict[str, Any]:
    """What wrote a part of a bank, for its record: who, by which prompts, and lacking which tools."""
    missing: dict[str, int] = getattr(engine, "missing", {})
    return {
        "engine": engine.name,
        "model": engine.model,
        "prompt_hash": prompt_hash,
        "missing_tools": dict(sorted(missing.items())),
    }


def has_copied_wording(info: Mapping[str, Any]) -> bool:
    """Whether a bank's queries are of the reference's own words, by what its bank.json says."""
    made = info.get("generate") or {}
    writer = load_writer(str(made.get("engine", "")))
    return writer is not None and writer.copies_wording


class RecordedReply(BaseModel):
    """One line of the file: what was offered, and what was written."""

    model_config = ConfigDict(frozen=True)

    offered: tuple[str, ...]
    at_most: int = Field(ge=1)
    draft: str
    query: str
    tools: tuple[str, ...]
    explanation: str = ""


class RecordedEngine:
    """Attempt i is line i of the file: its offer, its draft and its polished query.

    The replies lie in a temporary file while they are played; memory does not grow with them.
    `missing` counts the offered tools that the bank lacks, by name: they are left out of the
    offers. A reply that uses one is played as it stands, and the checks reject it.

    Raises:
        InputError: the file can't be read, or a line is not a recorded reply.
    """

    name = "recorded"

    def __init__(self, path: Path, tools: Sequence[Tool]) -> None:
        names = {name: tools[i].name for name, i in Bank(tuple(tools)).index.items()}
        self._replies = DiskList(RecordedReply)
        self.missing: Counter[str] = Counter()
        for reply in iterate_replies(path):
            self._replies.append(reply)
            self.missing.update(name for name in reply.offered if name not in names)
        self.model = path.name
        self.identity = f"recorded {sha256_file(path)}"
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

    async def close(self) -> None:
        """Nothing is held open."""


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


def find_replies(section: str, replies: Path | None) -> Path:
    """The file that is played in a section of a recipe.

    Raises:
        InputError: none is named.
    """
    if replies is None:
        raise InputError(
            f"{section}.replies: the recorded engine needs the file that it plays. "
            f"Set it to a JSONL file, or choose another {section}.engine."
        )
    return replies


def _make(config: GenerateConfig, context: EngineContext) -> RecordedEngine:
    return RecordedEngine(find_replies(config.section, config.replies), context.tools)


def _check(config: GenerateConfig) -> None:
    refuse_settings(config)
    find_replies(config.section, config.replies)
    if config.tools_per_query:
        raise InputError(
            "generate.tools_per_query: what is recorded was asked for already, each reply with "
            "the number of its line. Leave it out, or choose another generate.engine."
        )


KIND = EngineKind["GenerateConfig"](
    name="recorded",
    make=_make,
    check=_check,
    sends=lambda _: (),
    files=lambda config: (config.replies,) if config.replies else (),
    describe=lambda _: "recorded",
    asks_model=False,
    plays_back=True,
    default_queries=None,
    count_queries=lambda config: sum(
        1 for _ in iterate_replies(find_replies(config.section, config.replies))
    ),
)
