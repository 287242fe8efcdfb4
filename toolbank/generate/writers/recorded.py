"""Plays replies that lie in a file, through the same loop, checks and journal as a model's."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from toolbank.bank.bank import Bank
from toolbank.chat.chat import ChatReply, ChatRequest, Offer
from toolbank.config.explain import first_problem
from toolbank.llm.engines.kind import EngineContext, EngineKind, refuse_settings
from toolbank.system.errors import InputError
from toolbank.system.files import sha256_file
from toolbank.system.jsonl import read_lines

if TYPE_CHECKING:
    from toolbank.bank.records import Tool
    from toolbank.generate.config import GenerateConfig


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

    `missing` counts the offered tools that the bank lacks, by name: they are left out of the
    offers. A reply that uses one is played as it stands, and the checks reject it.

    Raises:
        InputError: the file can't be read, or a line is not a recorded reply.
    """

    name = "recorded"

    def __init__(self, path: Path, tools: Sequence[Tool]) -> None:
        replies = read_replies(path)
        index = Bank(tuple(tools)).index
        self.model = path.name
        self.identity = f"recorded {sha256_file(path)}"
        self.missing = Counter(
            name for reply in replies for name in reply.offered if name not in index
        )
        self.offers = RecordedOffers(
            tuple(
                Offer(
                    tuple(
                        dict.fromkeys(
                            tools[index[name]].name
                            for name in reply.offered
                            if name in index
                        )
                    ),
                    reply.at_most,
                )
                for reply in replies
            )
        )
        self._replies = replies

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
    """The offers that the recorded replies were written for, in the file's order."""

    def __init__(self, offers: tuple[Offer, ...]) -> None:
        self._offers = offers

    def offer(self, attempt: int) -> Offer | None:
        """The offer of line `attempt`, counted from 0, or None past the last line."""
        return self._offers[attempt] if attempt < len(self._offers) else None


def read_replies(path: Path) -> tuple[RecordedReply, ...]:
    """Read a file of recorded replies, one JSON object a line; empty lines are passed over.

    Raises:
        InputError: the file can't be read, has no line, or a line is not a recorded reply.
    """
    replies = read_lines(path, _parse)
    if not replies:
        raise InputError(f"{path}: no recorded replies in this file.")
    return tuple(replies)


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
    count_queries=lambda config: len(
        read_replies(find_replies(config.section, config.replies))
    ),
)
