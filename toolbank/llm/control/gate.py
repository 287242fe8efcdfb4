"""Who calls next."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from time import monotonic
from typing import Any

from toolbank.chat.chat import ChatRequest
from toolbank.llm.control.budget import Budget
from toolbank.llm.control.limit import CallLimit
from toolbank.llm.control.outage import Outage
from toolbank.llm.control.rates import Rates
from toolbank.llm.control.stop import Stop, Stopped

# Seconds that are rounding alone, and too few to wait for.
_SOON = 1e-6
# A call that waits: the number of its row, the order of its coming, itself and its tokens.
_Waiting = tuple[int, int, ChatRequest, float, asyncio.Future[bool]]


class Gate:
    """A place for each call in flight; of those that wait, the oldest row goes first.

    So a row that was begun is finished before another. Nobody goes past the limit, the rates, a
    pause that the endpoint asked for, an outage but for its probe, or a budget; a spent budget
    ends the run. Where its minutes are over, rows that were begun are finished all the same.
    """

    def __init__(
        self, limit: CallLimit, rates: Rates, outage: Outage, budget: Budget, stop: Stop
    ) -> None:
        self.in_flight = 0
        self._limit = limit
        self._rates = rates
        self._outage = outage
        self._budget = budget
        self._stop = stop
        self._waiting: list[_Waiting] = []
        self._sleeping: set[asyncio.Future[None]] = set()
        self._order = itertools.count()
        self._paused_until = 0.0
        self._last_probe = -1
        self._timer: asyncio.TimerHandle | None = None
        stop.listen(self._send_home)

    async def enter(self, request: ChatRequest, tokens: float) -> bool:
        """Return when a call may be made, and whether it is a probe; it holds a place until `leave`.

        Raises:
            Stopped: the run is ending.
        """
        if not self._waiting and self._may_go(request, tokens):
            return self._take(request, tokens)
        if self._is_over(request):
            raise Stopped
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        waiting = request.attempt, next(self._order), request, tokens, future
        heapq.heappush(self._waiting, waiting)
        self._admit()
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and not future.exception():
                self.leave()
            raise

    def leave(self) -> None:
        """Give the place back."""
        self.in_flight -= 1
        if self._waiting:
            self._admit()

    def end_row(self, row: int) -> None:
        """Note that a row makes no further call."""
        self._budget.end_row(row)
        if self._waiting:
            self._admit()

    def pause(self, seconds: float) -> bool:
        """Let nobody go for so long; say whether it was not to be waited as long already."""
        begun = monotonic()
        was_open = self._paused_until <= begun
        self._paused_until = max(self._paused_until, begun + seconds)
        return was_open

    def tell_what_holds_all(self, now: float) -> str:
        """Why no call is made just now, in a few words, or "" where calls are made."""
        if self._outage.is_down:
            since = now - self._outage.since
            return f"waiting for the endpoint, down for {since:.0f} s"
        left = self._paused_until - now
        return f"waiting {left:.0f} s as the endpoint asks" if left >= 1 else ""

    async def sleep(self, seconds: float) -> None:
        """Wait without a place.

        Raises:
            Stopped: the run is ending.
        """
        if self._stop:
            raise Stopped
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(seconds, _wake, future)
        self._sleeping.add(future)
        try:
            await future
        finally:
            timer.cancel()
            self._sleeping.discard(future)

    def _is_over(self, request: ChatRequest) -> bool:
        """Whether the run is ending for this call."""
        if not self._stop:
            return False
        now = monotonic()
        is_held_up = self._outage.is_down or self._paused_until > now
        return (
            self._stop.cause != "budget"
            or is_held_up
            or not self._budget.may_finish(request, now)
        )

    def _may_go(self, request: ChatRequest, tokens: float) -> bool:
        """Whether a call may be made now; else what could change this wakes the first that waits."""
        if self._is_over(request) or self.in_flight >= self._limit.now:
            return False
        now = monotonic()
        if not self._stop and (why := self._budget.why_spent(now)):
            self._stop.ask("budget", why)
            if self._is_over(request):
                return False
        if not self._budget.fits(request):
            if not (self.in_flight or self._budget.may_fit_later(request)):
                self._stop.ask("budget", self._budget.why_full(request))
            return False
        probe = self._outage.delay(now)
        if probe is None:
            return False
        delay = max(probe, self._paused_until - now, self._rates.delay(tokens, now))
        if delay <= _SOON:
            return True
        self._admit_in(delay, self._budget.seconds_left(now))
        return False

    def _take(self, request: ChatRequest, tokens: float) -> bool:
        self.in_flight += 1
        self._budget.send(request)
        self._rates.take(tokens, monotonic())
        if self._outage.is_down:
            self._outage.begin_probe()
            self._last_probe = request.attempt
        return self._outage.is_down

    def _admit(self) -> None:
        if self._stop:
            self._send_home()
        while self._waiting:
            position = self._first()
            _, _, request, tokens, future = self._waiting[position]
            if not future.done():
                if not self._may_go(request, tokens):
                    return
                future.set_result(self._take(request, tokens))
            self._remove(position)

    def _first(self) -> int:
        """Position of who goes next; an outage is probed with one row after another."""
        if not self._outage.is_down:
            return 0
        last = self._last_probe
        ranked = ((row <= last, row, n) for n, (row, *_) in enumerate(self._waiting))
        position = min(ranked)[2]
        return position if self._budget.fits(self._waiting[position][2]) else 0

    def _remove(self, position: int) -> None:
        if position == 0:
            heapq.heappop(self._waiting)
        else:
            del self._waiting[position]
            heapq.heapify(self._waiting)

    def _admit_in(self, delay: float, seconds_left: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        seconds = (
            min(delay, seconds_left) if seconds_left and seconds_left > 0 else delay
        )
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(0.0, seconds), self._admit)

    def _send_home(self) -> None:
        over = [waiting for waiting in self._waiting if self._is_over(waiting[2])]
        if over:
            gone = {order for _, order, *_ in over}
            self._waiting = [one for one in self._waiting if one[1] not in gone]
            heapq.heapify(self._waiting)
        for *_, future in over:
            _dismiss(future)
        for sleeping in self._sleeping:
            _dismiss(sleeping)


def _dismiss(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_exception(Stopped())


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
