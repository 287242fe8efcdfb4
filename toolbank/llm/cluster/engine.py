"""An engine whose calls are made by the workers of a Ray cluster."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from toolbank.chat.chat import ChatReply, ChatRequest, EngineError
from toolbank.llm.cluster.remote import RemoteWorker, WorkerLostError
from toolbank.llm.cluster.worker import EngineWorker, Introduction
from toolbank.system.cluster import describe_room, join
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.numbers import count
from toolbank.system.terminal import print_above_bars, print_message
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.llm.config import EngineConfig
    from toolbank.llm.engines.kind import EngineContext, EngineKind

# Workers that end without a reply in between, and with one and the same call in flight.
_MOST_LOST_IN_A_ROW = 8
_MOST_LOST_OF_A_CALL = 3
# Seconds after which it is told what is waited for, and that a worker may take to close.
_LONG_WAIT_S = 20
_LONGEST_CLOSE_S = 60


class ClusterEngine:
    """Deals attempts to workers, each of which has an engine of its own.

    All calls of an attempt go to the worker that had the fewest when it was dealt. What a worker
    that ends had in flight is asked again by another, and a new one takes its place. That is all
    that workers do: journal, limits, budget and retries are of the process that asks.

    Raises:
        InputError: Ray is missing, the cluster can't be joined, or no engine can be made there.
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
            tuple(kind.sends(config)),
        )
        self._workers = [self._start() for _ in range(config.workers)]
        self._ready: list[RemoteWorker] = []
        self._is_ready = asyncio.Event()
        # The newest attempts, and as many as may have a call yet to make.
        self._dealt: dict[int, RemoteWorker] = {}
        self._most_dealt = 4 * config.most_in_flight
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
        """Have a worker answer one request.

        Raises:
            EngineError: no answer came.
        """
        if not self._keepers:
            places = range(len(self._workers))
            self._keepers = [asyncio.create_task(self._keep(at)) for at in places]
        for _ in range(_MOST_LOST_OF_A_CALL):
            worker = await self._deal(request.attempt)
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
        """End the workers, and the cluster where it was started for them."""
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

    def _wait_for_first(self) -> Introduction:
        """What the first worker that is there says of itself.

        Raises:
            InputError: there is none, or its engine can't be made or used so.
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
            who: Introduction | ToolbankError = ray.get(come[0])
        except RayError as error:
            raise InputError(
                f"{self._config.section}.executor: a worker of Ray ended before it was ready "
                f"({error})."
            ) from error
        if isinstance(who, ToolbankError):
            raise who
        if who.has_offers:
            raise InputError(
                f"{self._config.section}.executor: the engine {who.name} brings its own attempts, "
                "which workers can't share. Leave `executor` out."
            )
        return self._accept(who, who.identity)

    def _accept(self, who: Introduction, identity: str) -> Introduction:
        """Refuse a worker that would write otherwise."""
        if who.version != __version__ or who.identity != identity:
            raise InputError(
                f"{self._config.section}.executor: the worker {who.place} has toolbank "
                f"{who.version} and answers as {who.identity}, where {__version__} and {identity} "
                "are wanted. Install the same versions on all nodes."
            )
        return who

    async def _deal(self, attempt: int) -> RemoteWorker:
        """The worker of an attempt; waits for one where none is there.

        Raises:
            EngineError: there will be none.
        """
        while not self._ready and self._failure is None:
            self._is_ready.clear()
            await self._is_ready.wait()
        if self._failure is not None:
            raise self._failure
        worker = self._dealt.pop(attempt, None)
        if worker is None or worker.is_lost:
            worker = min(self._ready, key=lambda one: one.in_flight)
        self._dealt[attempt] = worker
        if len(self._dealt) > self._most_dealt:
            del self._dealt[next(iter(self._dealt))]
        return worker

    async def _keep(self, at: int) -> None:
        """Keep one place filled: where its worker ends, another is started."""
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
                f"a reply in between. Of the last one Ray says: {error}"
            )
            return
        calls = count(error.calls, "call")
        print_above_bars(
            f"a worker ({worker.place or 'not ready yet'}) has ended, and another is started; "
            f"{calls} that it had in flight {'is' if error.calls == 1 else 'are'} asked again."
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
