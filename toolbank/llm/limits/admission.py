"""When a call may be made."""

from __future__ import annotations

import asyncio
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from toolbank.llm.limits.stop import Stop, Stopped

if TYPE_CHECKING:
    from toolbank.llm.limits.circuit_breaker import CircuitBreaker
    from toolbank.llm.limits.concurrency_limit import ConcurrencyLimit
    from toolbank.llm.limits.rate_limiter import RateLimiter

# Seconds that are rounding alone, and too few to wait for.
_SOON = 1e-6


class _Waiting(NamedTuple):
    tokens: float
    place: asyncio.Future[bool]


class Admission:
    """A place for each call in flight; attempts that have begun go first, in the order of coming.

    A broken circuit is probed with others first, in case it was one request that broke it. Nobody
    goes past the limit, the rates, a pause that the endpoint asked for, or a broken circuit but
    for its probe. Where a budget has ended the run, those go on whose attempt has begun, so that
    what was paid for is of use.
    """

    def __init__(
        self,
        limit: ConcurrencyLimit,
        rates: RateLimiter,
        breaker: CircuitBreaker,
        stop: Stop,
    ) -> None:
        self.in_flight = 0
        self._limit = limit
        self._rates = rates
        self._breaker = breaker
        self._stop = stop
        self._begun: deque[_Waiting] = deque()
        self._fresh: deque[_Waiting] = deque()
        self._sleeping: set[asyncio.Future[bool]] = set()
        self._paused_until = 0.0
        self._timer: asyncio.TimerHandle | None = None
        stop.listen(self._send_home)

    async def enter(self, tokens: float, *, has_begun: bool) -> bool:
        """Return when a call may be made, and whether it is a probe; it holds a place until `leave`.

        Raises:
            Stopped: the run is ending.
        """
        if self._is_over(has_begun=has_begun):
            raise Stopped
        if not (self._begun or self._fresh) and self._may_go(tokens):
            return self._take(tokens)
        place: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        (self._begun if has_begun else self._fresh).append(_Waiting(tokens, place))
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and not place.exception():
                self.leave(is_probe=place.result())
            raise

    def leave(self, *, is_probe: bool) -> None:
        """Give the place back; who was a probe lets the next one be made."""
        if is_probe:
            self._breaker.end_probe(monotonic())
        self.in_flight -= 1
        self._admit()

    def pause(self, seconds: float) -> bool:
        """Let nobody go for so long; say whether it was not to be waited as long already."""
        begun = monotonic()
        was_open = self._paused_until <= begun
        self._paused_until = max(self._paused_until, begun + seconds)
        return was_open

    def describe_hold(self) -> str:
        """Why no call is made just now, in a few words, or "" where calls are made."""
        now = monotonic()
        if self._breaker.is_open:
            since = now - self._breaker.since
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
        future: asyncio.Future[bool] = loop.create_future()
        timer = loop.call_later(seconds, _settle, future)
        self._sleeping.add(future)
        try:
            await future
        finally:
            timer.cancel()
            self._sleeping.discard(future)

    def _is_over(self, *, has_begun: bool) -> bool:
        """Whether the run is ending for a call."""
        if not self._stop:
            return False
        is_held_up = self._breaker.is_open or self._paused_until > monotonic()
        return self._stop.cause != "budget" or is_held_up or not has_begun

    def _may_go(self, tokens: float) -> bool:
        """Whether a call may be made now; else what could change this wakes who waits."""
        if self.in_flight >= self._limit.now:
            return False
        now = monotonic()
        probe = self._breaker.delay(now)
        if probe is None:
            return False
        delay = max(probe, self._paused_until - now, self._rates.delay(tokens, now))
        if delay <= _SOON:
            return True
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(delay, self._admit)
        return False

    def _take(self, tokens: float) -> bool:
        self.in_flight += 1
        self._rates.take(tokens, monotonic())
        if self._breaker.is_open:
            self._breaker.begin_probe()
        return self._breaker.is_open

    def _admit(self) -> None:
        if self._stop:
            self._send_home()
        while waiting := self._first():
            tokens, place = waiting[0]
            if not place.done():
                if not self._may_go(tokens):
                    return
                place.set_result(self._take(tokens))
            waiting.popleft()

    def _first(self) -> deque[_Waiting]:
        """Those of whom the first goes next; empty where nobody waits."""
        if self._breaker.is_open:
            return self._fresh or self._begun
        return self._begun or self._fresh

    def _send_home(self) -> None:
        for waiting, has_begun in ((self._begun, True), (self._fresh, False)):
            if self._is_over(has_begun=has_begun):
                for _, place in waiting:
                    _dismiss(place)
                waiting.clear()
        for sleeping in self._sleeping:
            _dismiss(sleeping)


def _dismiss(future: asyncio.Future[bool]) -> None:
    if not future.done():
        future.set_exception(Stopped())


def _settle(future: asyncio.Future[bool]) -> None:
    if not future.done():
        future.set_result(False)
