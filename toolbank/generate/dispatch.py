"""Many attempts in flight, each carried from its offer to its end by a task of its own."""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial

from toolbank.chat.chat import NotYet, RoundEngine
from toolbank.generate.attempt import Writer
from toolbank.generate.bank_builder import Attempt, BankBuilder
from toolbank.generate.messages import explain_nothing
from toolbank.llm.control.stop import Stopped
from toolbank.system.errors import ToolbankError

# A model whose first replies are all unusable will hardly do better.
_UNUSABLE_AT_FIRST = 50
# Rows past the calls in flight, so that one waits for each place that a row gives back.
_SPARE_ROWS = 8
_SPARE_SHARE = 0.25


class Dispatcher:
    """Starts attempts in their order, and hands those that end to the builder.

    No more are open than calls can be in flight, and some that wait or check. An attempt is
    started where it is sure to count: no more are open than queries are missing. One whose reply
    comes with a later round is pending until then. When the run is stopped, attempts end with the
    call that is in flight; those that got no end are left for the next run.
    """

    def __init__(
        self, writer: Writer, builder: BankBuilder, most_attempts: int | None
    ) -> None:
        self._writer = writer
        self._builder = builder
        self._most_attempts = most_attempts
        self._stop = writer.asker.stop
        self._next = 0
        self._open: set[asyncio.Task[Attempt]] = set()
        self._pending: list[int] = []
        self._again: deque[int] = deque()
        self._idle: asyncio.Future[None] | None = None

    @property
    def pending(self) -> int:
        """How many requests wait for a reply of a round."""
        return len(self._pending)

    async def work(self) -> str:
        """Carry all attempts; gives what the user has to do before the pending ones, or "".

        Raises:
            ToolbankError: a round can't be sent.
        """
        while True:
            await self._carry()
            engine = self._writer.engine
            if not isinstance(engine, RoundEngine):
                return ""
            self._writer.asker.stop_if_refused()
            if not self._pending or self._is_over():
                return ""
            if told := await self._end_round(engine):
                return told
            self._again.extend(sorted(self._pending))
            self._pending.clear()

    def _is_over(self) -> bool:
        """Whether no round may be sent; one that a budget has bounded may."""
        left = self._writer.asker.seconds_left
        is_late = left is not None and left <= 0
        return is_late or (bool(self._stop) and self._stop.cause != "budget")

    async def _end_round(self, engine: RoundEngine) -> str:
        """What the user has to do; "" too where the run is stopped while replies are waited for."""
        ending = asyncio.create_task(engine.end_round())

        def give_up() -> None:
            ending.cancel()

        self._stop.listen(give_up)
        try:
            return await ending
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._stop or (task is not None and task.cancelling()):
                raise
            return ""
        finally:
            self._stop.unlisten(give_up)

    async def _carry(self) -> None:
        """Return when no attempt is open and none can be started."""
        self._start()
        try:
            while self._open:
                self._idle = asyncio.get_running_loop().create_future()
                await self._idle
        except asyncio.CancelledError:
            # Else each attempt that is cancelled would make room for another.
            self._stop.ask("interrupt", "stopped by an interrupt")
            raise
        finally:
            left = list(self._open)
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left)

    def _start(self) -> None:
        while self._may_start() and self._has_room():
            number = self._take()
            if number is None:
                return
            task = asyncio.create_task(self._writer.attempt(number))
            self._open.add(task)
            task.add_done_callback(partial(self._end, number))

    def _may_start(self) -> bool:
        """What a round has brought is paid for, and is read though a budget is spent."""
        return not self._stop or (self._stop.cause == "budget" and bool(self._again))

    def _has_room(self) -> bool:
        most = self._writer.asker.limit.now
        return len(self._open) < most + _SPARE_ROWS + int(_SPARE_SHARE * most)

    def _take(self) -> int | None:
        """The next attempt, if there is one that is sure to count."""
        if self._again:
            return self._again.popleft()
        if self._next == self._most_attempts or not self._is_missing():
            return None
        if not (self._pending or self._builder.has_room_for(self._next)):
            return None
        if self._writer.offer(self._next) is None:
            return None
        self._next += 1
        return self._next - 1

    def _is_missing(self) -> bool:
        builder = self._builder
        waiting = len(self._open) + len(self._pending) + builder.waiting_candidates
        return builder.wanted is None or builder.accepted + waiting < builder.wanted

    def _end(self, number: int, task: asyncio.Task[Attempt]) -> None:
        self._open.discard(task)
        try:
            self._take_back(number, task)
            self._start()
        except BaseException as error:
            # A callback's own exception would be lost in the event loop.
            self._stop.ask("error", str(error))
            self._wake(error)
        if not self._open:
            self._wake()

    def _take_back(self, number: int, task: asyncio.Task[Attempt]) -> None:
        try:
            attempt = task.result()
            self._builder.accept(attempt)
        except NotYet:
            self._pending.append(number)
        except ToolbankError as error:
            self._stop.fail(error)
        except (Stopped, asyncio.CancelledError):
            pass
        builder = self._builder
        if builder.attempts >= _UNUSABLE_AT_FIRST and not builder.accepted:
            self._stop.fail(ToolbankError(explain_nothing(self._writer, builder)))

    def _wake(self, error: BaseException | None = None) -> None:
        if self._idle is None or self._idle.done():
            return
        if error is None:
            self._idle.set_result(None)
        else:
            self._idle.set_exception(error)
