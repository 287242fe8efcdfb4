"""The engine that writes without a model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from toolbank.bank.records import Tool
from toolbank.generate.affinity import Affinity
from toolbank.generate.related import RelatedOffers
from toolbank.generate.writers.rules.profile import Profiles
from toolbank.generate.writers.rules.steps import merge_steps
from toolbank.generate.writers.rules.writer import write_request
from toolbank.llm.chat import (
    ChatReply,
    ChatRequest,
    EngineError,
    Offers,
    PolishTask,
    WriteTask,
)

if TYPE_CHECKING:
    from toolbank.generate.config import GenerateConfig

VERSION = 2
_LEAST_AFFINITY = 0.05


class RulesEngine:
    """Writes and polishes requests from the reference's own words.

    A reply is a function of the tools, the task, the attempt and the seed alone.
    """

    name = "rules"
    model = f"rules-{VERSION}"

    def __init__(
        self, tools: Sequence[Tool], config: GenerateConfig, seed: int
    ) -> None:
        self._seed = seed
        self._positions = {tool.name: n for n, tool in enumerate(tools)}
        self._affinity = Affinity(tools)
        self._profiles = Profiles(tools)
        self.offers: Offers | None = None
        if config.sampling in (None, "related"):
            self.offers = RelatedOffers(tools, config, seed, self._affinity)
        content = json.dumps(
            [VERSION, seed, [t.model_dump() for t in tools]], sort_keys=True
        )
        self.identity = (
            f"{self.model}:{hashlib.sha256(content.encode()).hexdigest()[:16]}"
        )

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Answer a write or polish request with the JSON that its schema asks for.

        Raises:
            EngineError: the request has no task, which is so of all but those two.
        """
        random = Random(f"{self._seed}:{request.step}:{request.attempt}")
        task = request.task
        if isinstance(task, WriteTask):
            reply = self._write(task, random)
        elif isinstance(task, PolishTask):
            reply = {
                "already_good": False,
                "reason": "steps merged",
                "query": merge_steps(task.draft, random),
            }
        else:
            raise EngineError(
                f"The engine rules writes and polishes, and is asked to {request.step}.",
                reason="not-its-task",
                fatal=True,
            )
        return ChatReply(json.dumps(reply, ensure_ascii=False), self.model)

    async def close(self) -> None:
        """Nothing is held."""

    def _write(self, task: WriteTask, random: Random) -> dict[str, object]:
        offered = [self._positions[tool.name] for tool in task.tools]
        chosen = self._choose(offered, task, random)
        if len(chosen) < task.at_least or self._profiles[chosen[0]].is_silent:
            return {
                "declined": True,
                "reason": "nothing offered belongs together",
                "tools": [],
                "explanation": "",
                "draft": "",
            }
        draft = write_request([self._profiles[n] for n in chosen], random)
        return {
            "declined": False,
            "reason": "",
            "tools": [task.tools[offered.index(n)].name for n in chosen],
            "explanation": self._explain(chosen),
            "draft": draft,
        }

    def _explain(self, chosen: list[int]) -> str:
        first, *others = chosen
        if not others:
            return "One tool serves it."
        reasons = sorted({self._affinity.reason(first, other) for other in others})
        return f"The tools go together: {', '.join(reasons)}."

    def _choose(self, offered: list[int], task: WriteTask, random: Random) -> list[int]:
        first, *others = offered
        rated = [(n, self._affinity.between(first, n)) for n in others]
        rated = [
            pair
            for pair in rated
            if pair[1] > _LEAST_AFFINITY and not self._profiles[pair[0]].is_silent
        ]
        wanted = random.choices((2, 3, 4, 5), (60, 30, 8, 2))[0]
        chosen = [first]
        while rated and len(chosen) < max(task.at_least, min(wanted, task.at_most)):
            pick = random.choices(range(len(rated)), [w for _, w in rated])[0]
            chosen.append(rated.pop(pick)[0])
        return chosen
