"""Asks of the reference's own words, written by rules."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from toolbank.llm.chat import AskTask, ChatReply, ChatRequest, EngineError
from toolbank.requests.rules.engine import choose_things, merge_steps, write_request
from toolbank.requests.rules.wording import Profile, Profiles, say_plainly

if TYPE_CHECKING:
    from toolbank.bank.records import Tool


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
