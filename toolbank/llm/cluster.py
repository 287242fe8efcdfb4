"""An engine whose calls are made by workers of a Ray cluster."""

from __future__ import annotations

import asyncio
import itertools
import os
import platform
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from toolbank.llm.chat import ChatReply, ChatRequest, EngineError
from toolbank.llm.config import hide_in_reply
from toolbank.llm.engines import find_engine
from toolbank.system.cluster import describe_room, join
from toolbank.system.consent import Route, command_of
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.numbers import count
from toolbank.system.secrets import hide
from toolbank.system.terminal import print_above_bars, print_message
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.llm.chat import Engine
    from toolbank.llm.config import EngineConfig
    from toolbank.llm.engines.kind import EngineContext, EngineKind


GATHER_S = 0.01
"""Seconds that calls are collected for one message, which costs Ray a millisecond of CPU."""

WorkerOutcome = ChatReply | ToolbankError


@dataclass(frozen=True)
class WorkerInfo:
    """A worker's versions and place, and the names of its engine."""

    name: str
    model: str
    identity: str
    has_offers: bool
    version: str
    place: str


class EngineWorker:
    """Creates an engine in its own process, and answers requests with it.

    `routes` say which secrets the user allows to go where; their values come from the environment
    of this process. Errors are returned and not raised, because Ray would log them.
    """

    def __init__(
        self, config: EngineConfig, context: EngineContext, routes: Sequence[Route]
    ) -> None:
        self._kind = find_engine(config)
        self._config = config
        self._secrets = self._kind.find_secrets(config)
        self._running: dict[int, asyncio.Task[None]] = {}
        self._ended: list[tuple[int, WorkerOutcome]] = []
        self._has_ended = asyncio.Event()
        self._engine: Engine | None = None
        self._problem: ToolbankError | None = None
        try:
            self._check_secrets(routes)
            with command_of("the recipe", routes):
                self._engine = self._kind.create(config, context)
        except ToolbankError as error:
            self._problem = error

    async def introduce(self) -> WorkerInfo | ToolbankError:
        """Return information about the worker, or why it has no engine."""
        if self._engine is None:
            return self._problem or ToolbankError("there is no engine")
        return WorkerInfo(
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
        """Start calls, each with its own number, and cancel those that were given up."""
        for number, request in calls:
            task = asyncio.create_task(self._answer(number, request))
            self._running[number] = task
        for number in given_up:
            if number in self._running:
                self._running.pop(number).cancel()

    async def collect(self) -> list[tuple[int, WorkerOutcome]]:
        """Wait for outcomes, and return all since the last time."""
        await self._has_ended.wait()
        await asyncio.sleep(GATHER_S)
        self._has_ended.clear()
        ended, self._ended = self._ended, []
        return ended

    async def close(self) -> None:
        """Close the engine."""
        if self._engine is not None:
            await self._engine.close()

    async def _answer(self, number: int, request: ChatRequest) -> None:
        outcome = await self._ask(request)
        self._running.pop(number, None)
        self._ended.append((number, outcome))
        self._has_ended.set()

    async def _ask(self, request: ChatRequest) -> WorkerOutcome:
        assert self._engine is not None
        try:
            reply = await self._engine.answer(request)
            return hide_in_reply(reply, self._secrets)
        except ToolbankError as error:
            error.args = (hide(str(error), self._secrets),)
            return error
        except Exception as error:
            message = f"{self._engine.name}: {type(error).__name__}: {error}"
            return EngineError(hide(message, self._secrets), reason="engine-error")

    def _check_secrets(self, routes: Sequence[Route]) -> None:
        for variable, _ in routes:
            if not os.environ.get(variable, "").strip():
                raise InputError(
                    f"{self._config.section}.executor: {variable} is not set on the worker "
                    f"{_place()}. Workers read keys only from the environment of their node, "
                    "because Ray would log them. Set it there before `ray start`."
                )


def _place() -> str:
    return f"{os.getpid()} on {platform.node()}"


class WorkerLostError(Exception):
    """A worker has ended; `calls` is how many it had in flight."""

    def __init__(self, why: object, calls: int) -> None:
        super().__init__(str(why))
        self.calls = calls


class RemoteWorker:
    """Sends calls to a worker's actor, several per message, and receives their outcomes.

    `place` is where the worker runs, once it is known.
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
        """The number of calls that the worker has."""
        return len(self._waiting)

    async def introduce(self) -> WorkerInfo:
        """Get information about the worker once it has started.

        Raises:
            ToolbankError: it can't create an engine.
            WorkerLostError: it has ended.
        """
        try:
            who: WorkerInfo | ToolbankError = await self.actor.introduce.remote()
        except Exception as error:
            self.is_lost = True
            raise WorkerLostError(error, 0) from error
        if isinstance(who, ToolbankError):
            raise who
        self.place = who.place
        return who

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Answer one request by the worker.

        Raises:
            ToolbankError: the engine there raised it.
            WorkerLostError: the worker has ended.
        """
        if self.is_lost:
            raise WorkerLostError("it has ended", 0)
        number = next(self._numbers)
        reply: asyncio.Future[ChatReply] = asyncio.get_running_loop().create_future()
        self._waiting[number] = reply
        # Engines with workers only read the messages, and the tools of a task are many bytes.
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
        """Send calls and receive outcomes until the worker ends.

        Raises:
            WorkerLostError: it has ended; all waiting calls raise it too.
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
        """Close the worker's engine, unless the worker has ended."""
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


# The most workers that end without a reply in between, and with the same call in flight.
_MOST_LOST_IN_A_ROW = 8
_MOST_LOST_OF_A_CALL = 3
# Seconds until a message says what is waited for, and that a worker may take to close.
_LONG_WAIT_S = 20
_LONGEST_CLOSE_S = 60


class ClusterEngine:
    """Distributes attempts to workers, each with its own engine.

    All calls of an attempt go to the same worker, the one with the fewest calls at its first. If a
    worker ends, its calls in flight go to another one, and a new worker replaces it. Journal,
    limits, budget and retries stay in this process.

    Raises:
        InputError: Ray is missing, the cluster can't be joined, or no engine can be created there.
    """

    offers = None

    def __init__(
        self, kind: EngineKind[Any], config: EngineConfig, context: EngineContext
    ) -> None:
        self._config = config
        self._is_own = join(config.workers, f"{config.section}.executor")
        import ray

        self._actors = ray.remote(EngineWorker).options(
            num_cpus=1, num_gpus=kind.gpus(config), scheduling_strategy="SPREAD"
        )
        self._arguments = (
            config.model_copy(update={"executor": "local", "workers": 1}),
            ray.put(replace(context, folder=None)),
            tuple(grant.route for grant in kind.sends(config)),
        )
        self._workers = [self._start() for _ in range(config.workers)]
        self._ready: list[RemoteWorker] = []
        self._is_ready = asyncio.Event()
        # The newest attempts: enough to hold all that may have another call to make.
        self._worker_of: dict[int, RemoteWorker] = {}
        self._most_attempts = 4 * config.most_in_flight
        self._lost_in_a_row = 0
        self._failure: EngineError | None = None
        self._keepers: list[asyncio.Task[None]] = []
        self._is_closed = False
        try:
            who = self._wait_for_first()
        except BaseException:
            self._leave()
            raise
        self.name, self.model, self.identity = who.name, who.model, who.identity

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Answer one request by a worker.

        Raises:
            EngineError: there is no answer.
        """
        if not self._keepers:
            places = range(len(self._workers))
            self._keepers = [asyncio.create_task(self._keep(at)) for at in places]
        for _ in range(_MOST_LOST_OF_A_CALL):
            worker = await self._choose_worker(request.attempt)
            with suppress(WorkerLostError):
                reply = await worker.answer(request)
                self._lost_in_a_row = 0
                return reply
        raise EngineError(
            f"ray: {count(_MOST_LOST_OF_A_CALL, 'worker')} ended with this call in flight.",
            reason="worker-lost",
            retryable=True,
        )

    async def close(self) -> None:
        """End the workers, and the cluster if it was started for them."""
        if self._is_closed:
            return
        self._is_closed = True
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        closing = [worker.close() for worker in self._ready]
        with suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_CLOSE_S):
                await asyncio.gather(*closing)
        self._leave()

    def _start(self) -> RemoteWorker:
        return RemoteWorker(self._actors.remote(*self._arguments))

    def _wait_for_first(self) -> WorkerInfo:
        """Wait for the first worker that is ready.

        Raises:
            InputError: there is none, or its engine can't be created or used here.
        """
        import ray
        from ray.exceptions import RayError

        coming = [worker.actor.introduce.remote() for worker in self._workers]
        come, _ = ray.wait(coming, timeout=_LONG_WAIT_S)
        if not come:
            print_message(
                f"toolbank: waiting for the first of {count(len(coming), 'worker')}; the cluster "
                f"has {describe_room()}."
            )
            come, _ = ray.wait(coming)
        try:
            who: WorkerInfo | ToolbankError = ray.get(come[0])
        except RayError as error:
            raise InputError(
                f"{self._config.section}.executor: a worker of Ray ended before it was ready "
                f"({error})."
            ) from error
        if isinstance(who, ToolbankError):
            raise who
        if who.has_offers:
            raise InputError(
                f"{self._config.section}.executor: the engine {who.name} has its own attempts, "
                "which workers can't share. Remove `executor`."
            )
        return self._accept(who, who.identity)

    def _accept(self, who: WorkerInfo, identity: str) -> WorkerInfo:
        """Refuse a worker with another version or settings."""
        if who.version != __version__ or who.identity != identity:
            raise InputError(
                f"{self._config.section}.executor: the worker {who.place} has toolbank "
                f"{who.version} and the engine {who.identity}, but {__version__} and {identity} "
                "are required. Install the same versions on all nodes."
            )
        return who

    async def _choose_worker(self, attempt: int) -> RemoteWorker:
        """Choose the worker of an attempt; wait until there is one.

        Raises:
            EngineError: there will be none.
        """
        while not self._ready and self._failure is None:
            self._is_ready.clear()
            await self._is_ready.wait()
        if self._failure is not None:
            raise self._failure
        worker = self._worker_of.pop(attempt, None)
        if worker is None or worker.is_lost:
            worker = min(self._ready, key=lambda one: one.in_flight)
        self._worker_of[attempt] = worker
        if len(self._worker_of) > self._most_attempts:
            del self._worker_of[next(iter(self._worker_of))]
        return worker

    async def _keep(self, at: int) -> None:
        """Keep one place filled: if its worker ends, start another one."""
        while self._failure is None:
            worker = self._workers[at]
            try:
                self._accept(await worker.introduce(), self.identity)
                self._ready.append(worker)
                self._is_ready.set()
                await worker.carry()
            except ToolbankError as error:
                self._fail(str(error))
            except WorkerLostError as error:
                self._note_loss(worker, error)
                try:
                    self._workers[at] = self._start()
                except Exception as reason:
                    self._fail(f"ray: no other worker can be started ({reason}).")

    def _note_loss(self, worker: RemoteWorker, error: WorkerLostError) -> None:
        if worker in self._ready:
            self._ready.remove(worker)
        self._lost_in_a_row += 1
        if self._lost_in_a_row >= _MOST_LOST_IN_A_ROW:
            self._fail(
                f"ray: {count(self._lost_in_a_row, 'worker')} ended one after the other, without "
                f"a reply in between. Ray says of the last one: {error}"
            )
            return
        calls = count(error.calls, "call")
        print_above_bars(
            f"a worker ({worker.place or 'not ready yet'}) has ended, and another is started; "
            f"{calls} that it had in flight {'is' if error.calls == 1 else 'are'} repeated."
        )

    def _fail(self, message: str) -> None:
        self._failure = EngineError(message, reason="workers-ended", fatal=True)
        self._is_ready.set()

    def _leave(self) -> None:
        import ray

        for worker in self._workers:
            ray.kill(worker.actor)
        if self._is_own:
            ray.shutdown()
