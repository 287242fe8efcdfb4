"""The model client: many attempts at once, each answered from the journal or by a call."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from toolbank.llm.accounts import CallCounts, estimate_prompt
from toolbank.llm.budget import Budget, Reservation
from toolbank.llm.caller import Caller
from toolbank.llm.chat import ChatReply, ChatRequest
from toolbank.llm.stop import EarlyEnd, Stop, StoppedError, interruptible
from toolbank.system.consent import require_consent
from toolbank.system.errors import ToolbankError

if TYPE_CHECKING:
    from pathlib import Path

    from toolbank.llm.chat import Engine
    from toolbank.llm.config import EngineConfig
    from toolbank.llm.engines.kind import EngineContext, EngineKind
    from toolbank.llm.journal import Journal


class MissingReplyError(Exception):
    """The journal lacks a reply, which comes with a later round.

    `calls` is how many the attempt still needs, this one included.
    """

    def __init__(self, request: ChatRequest, calls: int) -> None:
        super().__init__()
        self.request = request
        self.calls = calls


# Attempts in addition to the calls in flight, so that one waits for each place that gets free.
_SPARE = 8
_SPARE_SHARE = 0.25

C = TypeVar("C", bound="EngineConfig")


_StartNext = Callable[[], Coroutine[Any, Any, None] | None]


class AttemptCalls:
    """The calls of one attempt, which a budget reserves until its end.

    `keys` are their journal keys in order; `model` is the one that replied last.
    """

    def __init__(self, pool: Pool, most: int) -> None:
        self.left = most
        self.reservation: Reservation | None = None
        self.keys: list[str] = []
        self.model = ""
        self._pool = pool

    async def ask(self, request: ChatRequest) -> ChatReply:
        """Get the reply from the journal, or else from the engine.

        Raises:
            EngineError: the call failed for good; the failure is in the journal.
            MissingReplyError: the engine answers in rounds, and the journal lacks the reply.
            StoppedError: the run is ending, or a budget has no call left for this attempt.
            ToolbankError: the journal can't be written.
        """
        key = request.key(self._pool.engine.identity)
        self.keys.append(key)
        reply = await self._pool.answer(request, key, self)
        self.model = reply.model
        return reply


def make_engine(kind: EngineKind[C], config: C, context: EngineContext) -> Engine:
    """Create the engine of a configuration in this process or in cluster workers.

    Raises:
        InputError: the engine can't be used, as of `EngineKind.create`, or Ray can't.
    """
    if config.executor == "local":
        return kind.create(config, context)
    kind.check(config)
    require_consent(kind.sends(config), config.section)
    from toolbank.llm.cluster import ClusterEngine

    return ClusterEngine(kind, config, context)


class Pool:
    """Answer the requests of one stage from the journal, or by an engine within its settings.

    A reply that the journal has is not requested again, and each is on disk before it is used.
    `counts` adds up the calls, `limit` is how many may be in flight, `admission` has those that
    are, `budget` is what they cost, and `stop` ends the run early. `describe_silence` says for how
    long no reply came.

    Raises:
        InputError: the engine can't be created, or the price file can't be read or lacks a model
            whose dollars are counted.
    """

    def __init__(
        self, kind: EngineKind[C], config: C, journal: Journal, context: EngineContext
    ) -> None:
        self.engine = make_engine(kind, config, context)
        self.asks_model = kind.asks_model
        self.counts = CallCounts()
        self.stop = Stop()
        self._config = config
        self._journal = journal
        self._begun = monotonic()
        self.budget = Budget(config, journal.usage(), self._begun)
        self._caller = Caller(
            engine=self.engine,
            journal=journal,
            config=config,
            kind=kind,
            budget=self.budget,
            counts=self.counts,
            stop=self.stop,
        )
        self.in_rounds = kind.in_rounds
        self._filler = kind.fill and kind.fill(config, journal, self.counts)
        self.limit = self._caller.limit
        self.admission = self._caller.admission
        self.describe_silence = self._caller.describe_silence
        self._open = 0
        self._cut: EarlyEnd | None = None
        self._group = asyncio.TaskGroup()
        self._begin: _StartNext = lambda: None
        self._waiting: deque[asyncio.Event] = deque()
        self.stop.listen(self._wake_all)

    @property
    def folder(self) -> Path:
        """The folder of the journal."""
        return self._journal.path.parent

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Allow calls within the block; after it, all replies are on disk.

        A first Ctrl-C, or the end of a budget's minutes, lets the calls in flight finish.

        Raises:
            ToolbankError: the error that ended the run.
        """
        with (
            interruptible(self.stop, lambda: self.admission.in_flight),
            self.budget.keep_minutes(self.stop, monotonic()),
        ):
            try:
                yield
            finally:
                # Attempts may have been cancelled while replies still wait to be written.
                await self._journal.flush()
                await self.engine.close()
        if self.stop.error is not None and self.stop.cause == "interrupt":
            raise ToolbankError(
                f"{self.stop.error} (It came while the run was ended by an interrupt.)"
            ) from self.stop.error
        if self.stop.error is not None:
            raise self.stop.error

    async def carry(self, begin: _StartNext) -> None:
        """Run attempts, as many at once as the endpoint takes.

        `begin` returns the next one, or None if none can start now; it is called again whenever
        one has ended. A ToolbankError of an attempt ends the run.
        """
        self._begin, self._open = begin, 0
        try:
            async with asyncio.TaskGroup() as self._group:
                self._fill()
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        if self._cut and not self.stop:
            self.stop.end("budget", *self._cut)

    @contextmanager
    def attempt(self, calls: int = 1) -> Iterator[AttemptCalls]:
        """Let one attempt make up to `calls` calls."""
        attempt = AttemptCalls(self, calls)
        try:
            yield attempt
        finally:
            if attempt.reservation is not None:
                self.budget.settle(attempt.reservation)
                self._wake()

    def choose_round(
        self, missing: Sequence[MissingReplyError], needed: int
    ) -> list[ChatRequest]:
        """Choose the missing requests for a round; a budget may leave some out.

        Requests that were sent before cost nothing more. The first that has no room ends the
        choice, so that what is missing in the end is at the end. If it is one of the first `needed`
        requests, the budget is spent; the others are to make up for replies that do not pass.
        """
        left = self.budget.seconds_left(monotonic())
        is_late = left is not None and left <= 0
        is_ending = self.stop and self.stop.cause != "budget"
        can_send = self._filler and getattr(self._filler, "sends", True)
        if self._filler is None or not can_send or is_late or is_ending:
            return []
        identity = self.engine.identity
        sent = [self._filler.holds(one.request.key(identity)) for one in missing]
        for one, is_sent in zip(missing, sent, strict=True):
            if is_sent:
                self.budget.hold(one.calls)
        chosen: list[ChatRequest] = []
        end: EarlyEnd | None = None
        for one, is_sent in zip(missing, sent, strict=True):
            tokens = estimate_prompt(one.request)
            if not (is_sent or end or self.budget.reserve(one.calls, tokens)):
                end = self.budget.explain(one.calls)
            if is_sent or not end:
                chosen.append(one.request)
        if end and len(chosen) < max(1, needed):
            self.stop.end("budget", *end)
        return chosen

    async def exchange(self, requests: Sequence[ChatRequest]) -> str | None:
        """Send a round of requests and take the replies that there are.

        Returns "" if there are any, None if the run is stopped before that, and else what the
        user has to do next.

        Raises:
            ToolbankError: the round can't be sent.
        """
        assert self._filler is not None
        exchanging = asyncio.create_task(self._filler.exchange(requests))
        self.stop.listen(exchanging.cancel)
        try:
            todo = await exchanging
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self.stop or (task is not None and task.cancelling()):
                raise
            todo = None
        self.budget = Budget(self._config, self._journal.usage(), self._begun)
        return todo

    async def answer(
        self, request: ChatRequest, key: str, attempt: AttemptCalls
    ) -> ChatReply:
        """Answer a request of an attempt, as `AttemptCalls.ask` does."""
        known = self._journal.get(key) or await self._journal.borrow(key)
        if known is not None:
            self.counts.from_journal += 1
            attempt.left -= 1
            return known
        if self._filler is not None:
            raise self._filler.failures.get(key) or MissingReplyError(
                request, attempt.left
            )
        has_begun = attempt.reservation is not None
        held = attempt.reservation or await self._reserve(attempt.left, request)
        attempt.reservation = held
        try:
            reply = await self._caller.call(key, request, held, has_begun=has_begun)
        except StoppedError:
            self._cut = self.budget.cut
            raise
        finally:
            self._wake()
        try:
            self._fill()
        finally:
            # It was paid for, whatever keeps the next attempt from beginning.
            await self._journal.put(key, self.engine.identity, request, reply)
        self.counts.add(reply)
        return reply

    async def _reserve(self, calls: int, request: ChatRequest) -> Reservation:
        """Wait until a budget has room for an attempt; end the run if there will be none."""
        prompt_tokens = estimate_prompt(request)
        place = asyncio.Event()
        self._waiting.append(place)
        try:
            while not self.stop:
                if self._waiting[0] is place:
                    held = self.budget.reserve(calls, prompt_tokens)
                    if held is not None:
                        return held
                    if not self.budget.is_open:
                        self.stop.end("budget", *self.budget.explain(calls))
                        break
                place.clear()
                await place.wait()
            raise StoppedError
        finally:
            self._waiting.remove(place)
            self._wake()

    def _wake(self) -> None:
        """Let the first in the queue for the budget look again."""
        if self._waiting:
            self._waiting[0].set()

    def _wake_all(self) -> None:
        for place in self._waiting:
            place.set()

    def _fill(self) -> None:
        """Start attempts while there is room; a spent budget allows those that cost nothing."""
        most = self.limit.now + _SPARE + int(_SPARE_SHARE * self.limit.now)
        while self._open < most and self.stop.cause in (None, "budget"):
            attempt = self._begin()
            if attempt is None:
                return
            self._open += 1
            self._group.create_task(self._carry(attempt))

    async def _carry(self, attempt: Coroutine[Any, Any, None]) -> None:
        try:
            await attempt
        except StoppedError:
            pass
        except ToolbankError as error:
            self.stop.fail(error)
        self._open -= 1
        self._fill()
