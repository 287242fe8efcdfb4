"""What runs in a worker: an engine with many calls in flight, and a box of what came of them."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolbank.chat.chat import ChatReply, ChatRequest, EngineError
from toolbank.llm.credentials import hide_in_reply
from toolbank.llm.engines import find_engine
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.secrets import hide
from toolbank.system.trust import Grant, command_of
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.chat.chat import Engine
    from toolbank.llm.config import EngineConfig
    from toolbank.llm.engines.kind import EngineContext

GATHER_S = 0.01
"""Seconds that what comes is gathered for one message: Ray takes a millisecond of CPU for each."""

Outcome = ChatReply | ToolbankError


@dataclass(frozen=True)
class Introduction:
    """Who a worker is, and what its engine is called."""

    name: str
    model: str
    identity: str
    has_offers: bool
    version: str
    place: str


class EngineWorker:
    """Makes an engine where it runs, and answers what it is given with it.

    `grants` are what the user lets go where; the secrets themselves are those of this process's
    environment. Nothing is raised through Ray, which would log it: failures are given as they are.
    """

    def __init__(
        self, config: EngineConfig, context: EngineContext, grants: Sequence[Grant]
    ) -> None:
        self._kind = find_engine(config)
        self._config = config
        self._secrets = self._kind.find_secrets(config)
        self._running: dict[int, asyncio.Task[None]] = {}
        self._ended: list[tuple[int, Outcome]] = []
        self._has_ended = asyncio.Event()
        self._engine: Engine | None = None
        self._problem: ToolbankError | None = None
        try:
            self._refuse_lack(grants)
            with command_of("the recipe", grants):
                self._engine = self._kind.create(config, context)
        except ToolbankError as error:
            self._problem = error

    async def introduce(self) -> Introduction | ToolbankError:
        """Who this is, or why there is no engine."""
        if self._engine is None:
            return self._problem or ToolbankError("there is no engine")
        return Introduction(
            self._engine.name,
            self._engine.model,
            self._engine.identity,
            self._engine.offers is not None,
            __version__,
            _place(),
        )

    async def take(
        self, calls: Sequence[tuple[int, ChatRequest]], given_up: Sequence[int]
    ) -> None:
        """Begin calls, each with a number of its own, and end those that nobody waits for."""
        for number, request in calls:
            task = asyncio.create_task(self._answer(number, request))
            self._running[number] = task
        for number in given_up:
            if number in self._running:
                self._running.pop(number).cancel()

    async def collect(self) -> list[tuple[int, Outcome]]:
        """What came since the last time; waits until there is something."""
        await self._has_ended.wait()
        await asyncio.sleep(GATHER_S)
        self._has_ended.clear()
        ended, self._ended = self._ended, []
        return ended

    async def close(self) -> None:
        """Let go of what the engine holds."""
        if self._engine is not None:
            await self._engine.close()

    async def _answer(self, number: int, request: ChatRequest) -> None:
        outcome = await self._ask(request)
        self._running.pop(number, None)
        self._ended.append((number, outcome))
        self._has_ended.set()

    async def _ask(self, request: ChatRequest) -> Outcome:
        assert self._engine is not None
        try:
            reply = await self._engine.answer(request)
            return hide_in_reply(reply, self._secrets)
        except ToolbankError as error:
            error.args = (hide(str(error), self._secrets),)
            return error
        except Exception as error:
            said = f"{self._engine.name}: {type(error).__name__}: {error}"
            return EngineError(hide(said, self._secrets), reason="engine-error")

    def _refuse_lack(self, grants: Sequence[Grant]) -> None:
        for grant in grants:
            if not os.environ.get(grant.variable, "").strip():
                raise InputError(
                    f"{self._config.section}.executor: {grant.variable} is not set on the worker "
                    f"{_place()}. Keys reach workers by the environment of their own node alone, "
                    "since Ray would log what it hands on: set it there before `ray start`."
                )


def _place() -> str:
    return f"{os.getpid()} on {platform.node()}"
