"""How many calls may be in flight."""

from __future__ import annotations

from statistics import median
from typing import Literal

MOST = 1024
_FIRST = 8
_SMALLEST_ROUND = 16
# So much more throughput than the best before is more than chance.
_GAIN = 1.1
# So far beyond the best limit it is tried whether more calls in flight bring more.
_BEYOND = 1.25


class CallLimit:
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
        self._bound = MOST if concurrency == "auto" else concurrency
        self._limit = float(min(_FIRST, self._bound) if self._is_auto else self._bound)
        self._threshold = float(self._bound)
        self._best = (0.0, self._limit)
        self._latencies: list[float] = []
        self._ended = self._congested = self._most = 0

    @property
    def now(self) -> int:
        """The most calls that may be in flight."""
        return int(self._limit)

    def answer(self, latency: float, in_flight: int) -> None:
        """Note a reply after `latency` seconds, with so many calls in flight, itself included."""
        self._latencies.append(latency)
        self._end_call(in_flight)

    def refuse(self, in_flight: int) -> None:
        """Note a call that failed as calls do where there are too many of them."""
        self._congested += 1
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
        self._ended = self._congested = self._most = 0

    def _end_round(self) -> None:
        if self._congested:
            share = self._congested / self._ended
            self._limit = max(1.0, self._limit * (1 - share / 2))
            self._threshold = self._limit
        elif self._most >= self.now and self._brings_more():
            if self._limit < self._threshold:
                self._limit = min(2 * self._limit, self._threshold)
            else:
                self._limit = min(self._limit + 1, float(self._bound))

    def _brings_more(self) -> bool:
        """Whether still more calls in flight may bring more replies a second."""
        latency = median(self._latencies)
        if not self._is_auto or not latency:
            return True
        most, at = self._best
        throughput = self._limit / latency
        if throughput > _GAIN * most:
            self._best = (throughput, self._limit)
            return True
        if at < self._limit < self._threshold:
            self._limit = self._threshold = at
        return self._limit < _BEYOND * at
