"""Telling an endpoint that is down from one with faults."""

from __future__ import annotations

# A server that fails a call in three at random does so this often in a row once in 40 million.
_IN_A_ROW = 16
_FIRST_PROBE = 2.0
_LONGEST_PROBE = 30.0
# An address that never gave a reply is mostly a wrong one.
_LONGEST_AT_START = 30.0


class CircuitBreaker:
    """Whether the endpoint is down: calls fail in a row, and none is answered between.

    Then all calls wait but one at a time, the probe: after 2 s, 4 s ... at most 30 s. Any reply
    ends the outage. It is too long past `max_outage` seconds, and past 30 s where no call was
    ever answered. Faults that come at once count for less where many calls are in flight: of
    those sent together, the ones that fail at once end before the first that is answered.
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
        """Seconds that an outage may last now."""
        if self._answered:
            return self._max_outage
        return min(self._max_outage, _LONGEST_AT_START)

    def answer(self) -> bool:
        """Note a reply, and say whether it ends an outage."""
        ended = self.is_open
        self.is_open = self._is_probing = False
        self._answered = True
        self._failures = 0
        return ended

    def fail(self, most_in_flight: int, now: float) -> bool:
        """Note a call that failed as on an endpoint that is down; say whether an outage begins."""
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
        """Seconds until a call may be made, or None until a probe has ended."""
        if not self.is_open:
            return 0.0
        return None if self._is_probing else max(0.0, self._probe_at - now)

    def begin_probe(self) -> None:
        """Note that a call is made although the endpoint is down."""
        self._is_probing = True

    def end_probe(self, now: float) -> None:
        """Note a probe that was not answered."""
        if self.is_open:
            self._is_probing = False
            self._interval = min(_LONGEST_PROBE, 2 * self._interval)
            self._plan_probe(now)

    def is_too_long(self, now: float) -> bool:
        """Whether nothing more is to be hoped for."""
        return self.is_open and now - self.since >= self.longest

    def _plan_probe(self, now: float) -> None:
        """The last probe is made when the outage has become too long, and not after."""
        self._probe_at = max(now, min(now + self._interval, self.since + self.longest))
