"""How long an endpoint asks its callers to wait, as its answer's headers say it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from toolbank.system.net import read_number, read_seconds

# A longer wait is no help to a run, and may be an absurd number.
LONGEST_WAIT = 86_400.0

# OpenAI's headers, those of gateways, and those of the IETF's draft of 2019 to 2024.
_RATE_LIMITS = (
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ("ratelimit-remaining", "ratelimit-reset"),
)


def read_pause(headers: Mapping[str, str]) -> float:
    """Seconds until a limit that is used up is reset; 0 where none is.

    A negative number is how some gateways say that there is no limit.
    `headers` finds names in lower case.
    """
    resets = (reset for left, reset in _limits(headers) if left == 0)
    return max(resets, default=0.0)


def read_wait(headers: Mapping[str, str]) -> float | None:
    """Seconds that a refused call is asked to wait, at most a day, or None where nothing is said.

    Retry-After (RFC 9110, 10.2.3) and its form in milliseconds go first; then the limit that is
    used up, or, where none seems to be, the one that is reset first.
    """
    milliseconds = read_number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return _bounded(milliseconds / 1000)
    wait = _seconds(headers.get("retry-after", ""))
    if wait is None:
        resets = [reset for _, reset in _limits(headers)]
        wait = read_pause(headers) or min(resets, default=None)
    return wait


def _limits(headers: Mapping[str, str]) -> Iterator[tuple[float | None, float]]:
    for remaining, reset in _RATE_LIMITS:
        wait = _seconds(headers.get(reset, ""))
        if wait is not None:
            yield read_number(headers.get(remaining, "")), wait


def _seconds(text: str) -> float | None:
    wait = read_seconds(text, time.time())
    return None if wait is None else _bounded(wait)


def _bounded(seconds: float) -> float:
    return min(max(0.0, seconds), LONGEST_WAIT)
