"""One worker, as who deals calls to it sees it."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from toolbank.chat.chat import ChatReply, ChatRequest
from toolbank.llm.cluster.worker import GATHER_S
from toolbank.system.errors import ToolbankError

if TYPE_CHECKING:
    from toolbank.llm.cluster.worker import Introduction


class WorkerLostError(Exception):
    """A worker has ended; `calls` is how many it had in flight."""

    def __init__(self, why: object, calls: int) -> None:
        super().__init__(str(why))
        self.calls = calls


class RemoteWorker:
    """Hands calls to a worker's actor, several in one message, and their outcomes to who waits.

    `place` is where it runs, once it has said so.
    """

    def __init__(self, actor: Any) -> None:
        self.actor = actor
        self.place = ""
        self.is_lost = False
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[ChatReply]] = {}
        self._calls: list[tuple[int, ChatRequest]] = []
        self._given_up: list[int] = []
        self._has_mail = asyncio.Event()

    @property
    def in_flight(self) -> int:
        """How many calls it has."""
        return len(self._waiting)

    async def introduce(self) -> Introduction:
        """Who it is, once it is there.

        Raises:
            ToolbankError: it can't make an engine.
            WorkerLostError: it has ended.
        """
        try:
            who: Introduction | ToolbankError = await self.actor.introduce.remote()
        except Exception as error:
            self.is_lost = True
            raise WorkerLostError(error, 0) from error
        if isinstance(who, ToolbankError):
            raise who
        self.place = who.place
        return who

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Have one request answered.

        Raises:
            ToolbankError: what the engine raised there.
            WorkerLostError: the worker has ended.
        """
        if self.is_lost:
            raise WorkerLostError("it has ended", 0)
        number = next(self._numbers)
        reply: asyncio.Future[ChatReply] = asyncio.get_running_loop().create_future()
        self._waiting[number] = reply
        # Who asks a model reads the messages; the tools of a task are many bytes.
        self._calls.append((number, replace(request, task=None)))
        self._has_mail.set()
        try:
            return await reply
        except asyncio.CancelledError:
            self._given_up.append(number)
            self._has_mail.set()
            raise
        finally:
            self._waiting.pop(number, None)

    async def carry(self) -> None:
        """Carry calls there and outcomes back, for as long as it is there.

        Raises:
            WorkerLostError: it has ended; all who waited for a reply are told the same.
        """
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._send())
                group.create_task(self._receive())
        except ExceptionGroup as errors:
            lost = WorkerLostError(errors.exceptions[0], self.in_flight)
            raise lost from errors
        finally:
            self.is_lost = True
            for reply in self._waiting.values():
                if not reply.done():
                    reply.set_exception(WorkerLostError("it has ended", 1))

    async def close(self) -> None:
        """Have it let go of what its engine holds; one that is gone holds nothing."""
        with suppress(Exception):
            await self.actor.close.remote()

    async def _send(self) -> None:
        while True:
            await self._has_mail.wait()
            await asyncio.sleep(GATHER_S)
            self._has_mail.clear()
            calls, self._calls = self._calls, []
            given_up, self._given_up = self._given_up, []
            await self.actor.take.remote(calls, given_up)

    async def _receive(self) -> None:
        while True:
            for number, outcome in await self.actor.collect.remote():
                reply = self._waiting.get(number)
                if reply is None or reply.done():
                    continue
                if isinstance(outcome, ChatReply):
                    reply.set_result(outcome)
                else:
                    reply.set_exception(outcome)
