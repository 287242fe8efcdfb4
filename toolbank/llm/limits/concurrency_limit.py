"""How many calls may be in flight."""

from __future__ import annotations

from statistics import median
from typing import Literal

from toolbank.llm.config import MOST_AUTO

_FIRST = 8
_SMALLEST_ROUND = 16
# So much more throughput than the best before is more than chance.
_GAIN = 1.1
# So far beyond the best limit it is tried whether more calls in flight bring more.
_BEYOND = 1.25
# What an endpoint says or does that has too much to do. Other failures may be of its own.
_OVERLOAD = frozenset({"http-429", "http-503", "http-529", "timeout"})
# The usual share of other failures is learned over so many rounds; up to twice as many, and up
# to 40 % of all calls, are taken to have nothing to do with the load.
_ROUNDS_TO_LEARN = 10
_MOST_USUAL = 0.2


class ConcurrencyLimit:
    """A bound, and under it as many calls in flight as the endpoint takes.

    Additive increase and multiplicative decrease (Chiu and Jain, "Analysis of the increase and
    decrease algorithms for congestion avoidance", 1989), with the slow start of TCP (RFC 5681,
    3.1), and a decrease in proportion to the share of congested calls (RFC 8257, 3.3). All of it
    happens once a round trip, which is as many ended calls as may be in flight. A number as bound
    is where it begins. "auto" begins at 8, and stays where more calls in flight would only each
    take longer: throughput is limit / median latency (Little's law).
    """

    def __init__(self, concurrency: int | Literal["auto"]) -> None:
        self._is_auto = concurrency == "auto"
        self._bound = MOST_AUTO if concurrency == "auto" else concurrency
        self._limit = float(min(_FIRST, self._bound) if self._is_auto else self._bound)
        self._threshold = float(self._bound)
        self._best = (0.0, self._limit)
        self._usual = 0.0
        # The calls of the first round after a leap were sent before it.
        self._is_settling = False
        # A leap that brought nothing is taken back where a second round says so, too.
        self._is_in_doubt = False
        self._latencies: list[float] = []
        self._ended = self._overloads = self._others = self._most = 0

    @property
    def now(self) -> int:
        """The most calls that may be in flight."""
        return int(self._limit)

    def answer(self, latency: float, in_flight: int) -> None:
        """Note a reply after `latency` seconds, with so many calls in flight, itself included."""
        self._latencies.append(latency)
        self._end_call(in_flight)

    def fail(self, reason: str, in_flight: int) -> None:
        """Note a call that failed in a way that may have to do with the load."""
        if reason in _OVERLOAD:
            self._overloads += 1
        else:
            self._others += 1
        self._end_call(in_flight)

    def restart(self) -> None:
        """Begin again with few calls, and come back soon to as many as there were."""
        self._threshold = max(self._threshold, self._limit)
        self._limit = min(self._limit, float(_FIRST))
        self._begin_round()

    def _end_call(self, in_flight: int) -> None:
        self._ended += 1
        self._most = max(self._most, in_flight)
        if self._ended >= max(self._limit, _SMALLEST_ROUND):
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
        """The share of calls of this round that failed for the load."""
        others = self._others / self._ended
        unusual = max(0.0, others - 2 * self._usual)
        self._usual += (others - self._usual) / _ROUNDS_TO_LEARN
        self._usual = min(self._usual, _MOST_USUAL)
        return self._overloads / self._ended + unusual

    def _brings_more(self) -> bool:
        """Whether still more calls in flight may bring more replies a second."""
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
