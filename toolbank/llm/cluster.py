"""An engine whose calls are made by workers of a Ray cluster."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from toolbank.llm.caller import ask_engine
from toolbank.llm.chat import ChatReply, ChatRequest, EngineError
from toolbank.llm.engines import find_engine
from toolbank.system.cluster import describe_room, join
from toolbank.system.consent import Route, command_of
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.numbers import count
from toolbank.system.terminal import print_above_bars, print_message
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.llm.chat import Engine
    from toolbank.llm.config import EngineConfig
    from toolbank.llm.engines.kind import EngineContext, EngineKind


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

    async def answer(self, request: ChatRequest) -> ChatReply | ToolbankError:
        """Answer one request, or return why there is no answer."""
        assert self._engine is not None
        try:
            return await ask_engine(self._engine, request, self._secrets)
        except ToolbankError as error:
            return error

    async def close(self) -> None:
        """Close the engine."""
        if self._engine is not None:
            await self._engine.close()

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


@dataclass(eq=False)
class RemoteWorker:
    """A worker's actor, where it runs once that is known, and how many calls it has."""

    actor: Any
    place: str = "not ready yet"
    in_flight: int = 0
    is_lost: bool = False


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
            num_cpus=1,
            num_gpus=kind.gpus(config),
            scheduling_strategy="SPREAD",
            max_concurrency=config.most_in_flight + 1,
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
        self._starts: set[asyncio.Task[None]] = set()
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
        import ray
        from ray.exceptions import RayError

        if not self._starts:
            for worker in self._workers:
                self._introduce(worker)
        for _ in range(_MOST_LOST_OF_A_CALL):
            worker = await self._choose_worker(request.attempt)
            worker.in_flight += 1
            # Engines with workers only read the messages, and the tools of a task are many bytes.
            call = worker.actor.answer.remote(replace(request, task=None))
            try:
                outcome: ChatReply | ToolbankError = await call
            except asyncio.CancelledError:
                ray.cancel(call)
                raise
            except RayError as error:
                self._replace(worker, error)
                continue
            finally:
                worker.in_flight -= 1
            if isinstance(outcome, ToolbankError):
                raise outcome
            self._lost_in_a_row = 0
            return outcome
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
        for start in self._starts:
            start.cancel()
        closing = [worker.actor.close.remote() for worker in self._ready]
        with suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_CLOSE_S):
                await asyncio.gather(*closing, return_exceptions=True)
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

    def _introduce(self, worker: RemoteWorker) -> None:
        self._starts.add(asyncio.create_task(self._wait_for(worker)))

    async def _wait_for(self, worker: RemoteWorker) -> None:
        """Use a worker once it has started; if it ends before, start another one."""
        try:
            who: WorkerInfo | ToolbankError = await worker.actor.introduce.remote()
            if isinstance(who, ToolbankError):
                raise who
            worker.place = self._accept(who, self.identity).place
        except ToolbankError as error:
            self._fail(str(error))
        except Exception as error:
            self._replace(worker, error)
        else:
            self._ready.append(worker)
            self._is_ready.set()

    def _replace(self, worker: RemoteWorker, error: Exception) -> None:
        """Start another worker in place of one that has ended, unless that is done."""
        if worker.is_lost:
            return
        worker.is_lost = True
        if worker in self._ready:
            self._ready.remove(worker)
        self._lost_in_a_row += 1
        if self._lost_in_a_row >= _MOST_LOST_IN_A_ROW:
            self._fail(
                f"ray: {count(self._lost_in_a_row, 'worker')} ended one after the other, without "
                f"a reply in between. Ray says of the last one: {error}"
            )
            return
        print_above_bars(
            f"a worker ({worker.place}) has ended, and another is started; the calls that it had "
            "in flight are repeated."
        )
        try:
            new = self._start()
        except Exception as reason:
            self._fail(f"ray: no other worker can be started ({reason}).")
            return
        self._workers[self._workers.index(worker)] = new
        self._introduce(new)

    def _fail(self, message: str) -> None:
        self._failure = EngineError(message, reason="workers-ended", fatal=True)
        self._is_ready.set()

    def _leave(self) -> None:
        import ray

        for worker in self._workers:
            ray.kill(worker.actor)
        if self._is_own:
            ray.shutdown()
