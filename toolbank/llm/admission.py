"""Decide when a call may be made: concurrency, rate limits, and a circuit breaker."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from statistics import median
from time import monotonic
from typing import Literal, NamedTuple

from toolbank.llm.accounts import FIRST_COMPLETION, estimate_prompt
from toolbank.llm.chat import ChatReply, ChatRequest
from toolbank.llm.config import MOST_AUTO, EngineConfig
from toolbank.llm.stop import Stop, StoppedError

# A server that fails every third call at random fails so many in a row once in 40 million.
_IN_A_ROW = 16
_FIRST_PROBE = 2.0
_LONGEST_PROBE = 30.0
# An address without any reply is mostly wrong.
_LONGEST_AT_START = 30.0


class CircuitBreaker:
    """Detects an outage of the endpoint: many failed calls in a row, and no reply between them.

    During an outage all calls wait except one at a time, the probe, after 2 s, 4 s ... at most
    30 s. Any reply ends the outage. It is too long after `max_outage` seconds, or after 30 s if no
    call was ever answered. The more calls are in flight, the more failures it takes: of calls sent
    together, those that fail immediately end before the first reply.
    """

    def __init__(self, max_outage: float) -> None:
        self.is_open = False
        self.number = 0
        self.since = 0.0
        self._max_outage = max_outage
        self._answered = False
        self._failures = 0
        self._interval = _FIRST_PROBE
        self._probe_at = 0.0
        self._is_probing = False

    @property
    def longest(self) -> float:
        """The seconds that an outage may last."""
        if self._answered:
            return self._max_outage
        return min(self._max_outage, _LONGEST_AT_START)

    def answer(self) -> bool:
        """Note a reply; return whether it ends an outage."""
        ended = self.is_open
        self.is_open = self._is_probing = False
        self._answered = True
        self._failures = 0
        return ended

    def fail(self, most_in_flight: int, now: float) -> bool:
        """Note a retryable failure; return whether an outage begins."""
        if self.is_open:
            return False
        if not self._failures:
            self.since = now
        self._failures += 1
        if self._failures < _IN_A_ROW + most_in_flight:
            return False
        self.is_open = True
        self.number += 1
        self._interval = _FIRST_PROBE
        self._plan_probe(now)
        return True

    def delay(self, now: float) -> float | None:
        """Compute the seconds until a call may be made; None while a probe is running."""
        if not self.is_open:
            return 0.0
        return None if self._is_probing else max(0.0, self._probe_at - now)

    def begin_probe(self) -> None:
        """Note that a call is made during the outage."""
        self._is_probing = True

    def end_probe(self, now: float) -> None:
        """Note a probe that was not answered."""
        if self.is_open:
            self._is_probing = False
            self._interval = min(_LONGEST_PROBE, 2 * self._interval)
            self._plan_probe(now)

    def is_too_long(self, now: float) -> bool:
        """Whether the outage has lasted too long."""
        return self.is_open and now - self.since >= self.longest

    def _plan_probe(self, now: float) -> None:
        # The last probe is made when the outage becomes too long, and not after.
        self._probe_at = max(now, min(now + self._interval, self.since + self.longest))


FIRST_LIMIT = 8
"""The calls in flight at first to a hosted endpoint."""
_SMALLEST_ROUND = 16
# With few calls in flight, a round has so many times as many.
_SMALL_ROUNDS = 4
_TIMEOUT = "timeout"
# A gain of throughput over the best so far that is more than chance.
_GAIN = 1.1
# How far beyond the best limit more calls in flight are tried.
_BEYOND = 1.25
RATE_LIMITED = "http-429"
"""The reason of a call that a rate limit refused."""
# Failures of an overloaded endpoint. Others may have other causes.
_OVERLOAD = frozenset({RATE_LIMITED, "http-503", "http-529", _TIMEOUT})
# The usual share of other failures is learned over so many rounds. Up to twice this share, and up
# to 40 % of all calls, are not attributed to the load.
_ROUNDS_TO_LEARN = 10
_MOST_USUAL = 0.2


class ConcurrencyLimit:
    """Adapts the number of calls in flight to what the endpoint can handle, below a bound.

    Additive increase and multiplicative decrease (Chiu and Jain, "Analysis of the increase and
    decrease algorithms for congestion avoidance", 1989), with the slow start of TCP (RFC 5681,
    3.1), and a decrease in proportion to the share of congested calls (RFC 8257, 3.3). It changes
    once per round, which is as many ended calls as may be in flight. A number is both the start
    and the bound. "auto" starts at `first` and stops where more calls in flight would only take
    longer: throughput is limit / median latency (Little's law). If most calls time out, it is
    halved at once, because a server with few slots queues the others.
    """

    def __init__(
        self, concurrency: int | Literal["auto"], first: int = FIRST_LIMIT
    ) -> None:
        self._is_auto = concurrency == "auto"
        self._bound = MOST_AUTO if concurrency == "auto" else concurrency
        self._first = first
        self._limit = float(min(first, self._bound) if self._is_auto else self._bound)
        self._threshold = float(self._bound)
        self._best = (0.0, self._limit)
        self._usual = 0.0
        # The calls of the first round after a leap were sent before it.
        self._is_settling = False
        # A leap without gain is undone only if a second round confirms it.
        self._is_in_doubt = False
        self._latencies: list[float] = []
        self._ended = self._overloads = self._others = self._most = 0

    def start_with(self, first: int) -> None:
        """Start "auto" with so many calls in flight."""
        self._first = min(first, self._bound)
        self._limit = float(self._first)
        self._best = (0.0, self._limit)

    @property
    def now(self) -> int:
        """The most calls that may be in flight."""
        return int(self._limit)

    def answer(self, latency: float, in_flight: int) -> None:
        """Note a reply after `latency` seconds; `in_flight` includes this call."""
        self._latencies.append(latency)
        self._end_call(in_flight)

    def fail(self, reason: str, in_flight: int) -> None:
        """Note a failure that may be due to the load."""
        if reason in _OVERLOAD:
            self._overloads += 1
        else:
            self._others += 1
        if reason == _TIMEOUT and in_flight > 1 and 2 * self._overloads > self._ended:
            self._limit = self._threshold = max(1.0, min(self._limit, in_flight / 2))
        self._end_call(in_flight)

    def restart(self) -> None:
        """Start again with few calls, and return quickly to the former number."""
        self._threshold = max(self._threshold, self._limit)
        self._limit = min(self._limit, float(self._first))
        self._begin_round()

    def _end_call(self, in_flight: int) -> None:
        self._ended += 1
        self._most = max(self._most, in_flight)
        smallest = min(_SMALLEST_ROUND, _SMALL_ROUNDS * self._limit)
        if self._ended >= max(self._limit, smallest):
            self._end_round()
            self._begin_round()

    def _begin_round(self) -> None:
        self._latencies = []
        self._ended = self._overloads = self._others = self._most = 0

    def _end_round(self) -> None:
        share = self._congested_share()
        is_settling, self._is_settling = self._is_settling, False
        if share:
            self._limit = max(1.0, self._limit * (1 - share / 2))
            self._threshold = self._limit
            self._limit = min(self._limit + 1, float(self._bound))
        elif self._most >= self.now and not is_settling and self._brings_more():
            if self._limit < self._threshold:
                self._limit = min(2 * self._limit, self._threshold)
                self._is_settling = True
            else:
                self._limit = min(self._limit + 1, float(self._bound))

    def _congested_share(self) -> float:
        """Estimate the share of this round's calls that failed because of the load."""
        others = self._others / self._ended
        unusual = max(0.0, others - 2 * self._usual)
        self._usual += (others - self._usual) / _ROUNDS_TO_LEARN
        self._usual = min(self._usual, _MOST_USUAL)
        return self._overloads / self._ended + unusual

    def _brings_more(self) -> bool:
        """Whether more calls in flight may give more replies per second."""
        if not (self._is_auto and self._latencies):
            return True
        latency = median(self._latencies)
        if not latency:
            return True
        most, at = self._best
        throughput = self._limit / latency
        if throughput > _GAIN * most:
            self._best = (throughput, self._limit)
            self._is_in_doubt = False
            return True
        if at < self._limit < self._threshold:
            if not self._is_in_doubt:
                self._is_in_doubt = True
                return False
            self._limit = self._threshold = at
        return self._limit < _BEYOND * at


_WEIGHT_OF_NEW = 0.05


class TokenBucket:
    """An even rate per minute, which saves up at most one second's worth.

    A call that costs more than the bucket holds is allowed when it is full, and leaves a debt.
    """

    def __init__(self, per_minute: float, now: float) -> None:
        self._rate = per_minute / 60
        self._most = max(1.0, self._rate)
        self._level = self._most
        self._at = now

    def delay(self, cost: float, now: float) -> float:
        """Compute the seconds until so much may be taken."""
        self._fill(now)
        return max(0.0, min(cost, self._most) - self._level) / self._rate

    def take(self, cost: float, now: float) -> None:
        """Take so much, or give it back if negative."""
        self._fill(now)
        self._level = min(self._most, self._level - cost)

    def _fill(self, now: float) -> None:
        passed = max(0.0, now - self._at)
        self._level = min(self._most, self._level + passed * self._rate)
        self._at = now


class RateLimiter:
    """The calls and tokens per minute that a configuration allows.

    A call's tokens are estimated from the prompt's characters and the mean completion so far, and
    corrected when the reply reports them.
    """

    def __init__(self, config: EngineConfig, now: float) -> None:
        self._calls = TokenBucket(config.rpm, now) if config.rpm else None
        self._tokens = TokenBucket(config.tpm, now) if config.tpm else None
        self._completion = FIRST_COMPLETION

    def estimate(self, request: ChatRequest) -> float:
        """Estimate the tokens of a call; 0 if there is no token limit."""
        if self._tokens is None:
            return 0.0
        return estimate_prompt(request) + self._completion

    def delay(self, tokens: float, now: float) -> float:
        """Compute the seconds until a call of so many tokens may be made."""
        delay = self._calls.delay(1, now) if self._calls else 0.0
        return max(delay, self._tokens.delay(tokens, now)) if self._tokens else delay

    def take(self, tokens: float, now: float) -> None:
        """Note that a call of so many tokens is made."""
        if self._calls:
            self._calls.take(1, now)
        if self._tokens:
            self._tokens.take(tokens, now)

    def correct(self, estimate: float, reply: ChatReply, now: float) -> None:
        """Correct the estimate of a call by the tokens that its reply reports."""
        cost = reply.prompt_tokens + reply.completion_tokens
        if self._tokens and cost:
            self._tokens.take(cost - estimate, now)
            new = reply.completion_tokens - self._completion
            self._completion += _WEIGHT_OF_NEW * new


# A wait so short is a rounding error.
_SOON = 1e-6


class _Candidate(NamedTuple):
    tokens: float
    place: asyncio.Future[bool]


class Admission:
    """Admits calls in order of arrival; calls of attempts that have begun come first.

    In an outage other attempts come first, in case one request caused the failures. Calls wait for
    the concurrency limit, the rates, a pause that the endpoint asked for, and the end of an outage.
    After a budget has ended the run, attempts that have begun may continue, so that their paid
    replies are used.
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
        self._begun: deque[_Candidate] = deque()
        self._fresh: deque[_Candidate] = deque()
        self._sleeping: set[asyncio.Future[bool]] = set()
        self._paused_until = 0.0
        self._released = sys.maxsize
        self._timer: asyncio.TimerHandle | None = None
        stop.listen(self._send_home)

    async def enter(self, tokens: float, *, has_begun: bool) -> bool:
        """Wait until a call may be made, and occupy a place until `leave`.

        Returns whether the call is a probe.

        Raises:
            StoppedError: the run is ending.
        """
        if self._is_over(has_begun=has_begun):
            raise StoppedError
        if not (self._begun or self._fresh) and self._may_go(tokens):
            return self._take(tokens)
        place: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        (self._begun if has_begun else self._fresh).append(_Candidate(tokens, place))
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and not place.exception():
                self.leave(is_probe=place.result())
            raise

    def leave(self, *, is_probe: bool) -> None:
        """Free the place of a call; after a probe, the next one is allowed."""
        if is_probe:
            self._breaker.end_probe(monotonic())
        self.in_flight -= 1
        self._admit()

    def pause(self, seconds: float) -> bool:
        """Admit no call for so long, then one at a time; return whether there was no pause before.

        Each reply after the pause lets one more call be in flight, as in the slow start of TCP.
        """
        begun = monotonic()
        was_open = self._paused_until <= begun
        self._paused_until = max(self._paused_until, begun + seconds)
        self._released = 1
        return was_open

    def release(self) -> None:
        """Let one more call be in flight after a reply."""
        if self._released < self._limit.now:
            self._released += 1

    def describe_hold(self) -> str:
        """Say in a few words why no call is made now; "" if calls are made."""
        now = monotonic()
        if self._breaker.is_open:
            since = now - self._breaker.since
            return f"waiting for the endpoint, down for {since:.0f} s"
        left = self._paused_until - now
        return f"waiting {left:.0f} s as the endpoint asks" if left >= 1 else ""

    async def sleep(self, seconds: float) -> None:
        """Wait without a place.

        Raises:
            StoppedError: the run is ending.
        """
        if self._stop:
            raise StoppedError
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
        """Whether the run is ending, so that this call may not be made."""
        if not self._stop:
            return False
        is_held_up = self._breaker.is_open or self._paused_until > monotonic()
        return self._stop.cause != "budget" or is_held_up or not has_begun

    def _may_go(self, tokens: float) -> bool:
        """Whether a call may be made now; if it has to wait, set a timer."""
        if self.in_flight >= min(self._limit.now, self._released):
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

    def _first(self) -> deque[_Candidate]:
        """Choose the queue whose first call is next; empty if no call waits."""
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
        future.set_exception(StoppedError())


def _settle(future: asyncio.Future[bool]) -> None:
    if not future.done():
        future.set_result(False)
