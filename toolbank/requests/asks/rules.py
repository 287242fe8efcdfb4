"""Write asks in the words of the reference, by rules."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from toolbank.llm.chat import AskTask, ChatReply, ChatRequest
from toolbank.requests.rules.engine import choose_things, merge_steps, write_request
from toolbank.requests.rules.wording import Profile, Profiles, say_plainly

if TYPE_CHECKING:
    from toolbank.bank.records import Tool


VERSION = 2


class RulesAskEngine:
    """Write plain and terse asks; none of another kind, and none for a tool without a reference.

    An ask depends on the tools, the tool, the key and the seed alone. A stored ask stays valid when
    other tools of the catalogue change.
    """

    name = "rules"
    model = f"rules-asks-{VERSION}"
    offers = None

    def __init__(self, tools: Sequence[Tool], seed: int) -> None:
        self._seed = seed
        self._positions = {tool.name: n for n, tool in enumerate(tools)}
        self._profiles = Profiles(tools)
        # The other inputs are in the prompt: the tool and its neighbours.
        self.identity = f"{self.model}:{seed}"

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Write the asks of the request's tool."""
        task = request.task
        assert isinstance(task, AskTask)
        profile = self._profiles[self._positions[task.tool.name]]
        answer = {
            key: _write(
                kind, profile, Random(f"{self._seed}:ask:{task.tool.name}:{key}")
            )
            for key, kind in task.kinds.items()
        }
        return ChatReply(json.dumps(answer, ensure_ascii=False), self.model)

    async def close(self) -> None:
        """Do nothing, since nothing is open."""


def _write(kind: str, profile: Profile, random: Random) -> str:
    if profile.is_silent:
        return ""
    if kind == "plain":
        return merge_steps(write_request([profile], random), random)
    if kind == "terse":
        return _write_tersely(profile, random)
    return ""


def _write_tersely(profile: Profile, random: Random) -> str:
    """The first phrase of a tool, in plain words, which is no sentence."""
    phrases = (phrase for phrase, _ in profile.told if phrase.kind != "fact")
    if (phrase := next(phrases, None)) is None:
        return ""
    if profile.takes_data:
        phrase = say_plainly(phrase, choose_things(profile, random), random)
    return phrase.text.rstrip(".")
