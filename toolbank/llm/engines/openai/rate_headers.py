"""How long an endpoint asks its callers to wait, as its answer's headers say it."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

# A longer wait is no help to a run, and may be an absurd number.
LONGEST_WAIT = 86_400.0

# OpenAI's headers, those of gateways, and those of the IETF's draft of 2019 to 2024.
_LIMITS = (
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ("ratelimit-remaining", "ratelimit-reset"),
)
_UNITS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}
_PART = re.compile(r"(\d+(?:\.\d*)?)(ms|us|d|h|m|s)")
_DURATION = re.compile(rf"(?:{_PART.pattern})+")
# A larger number is a time since 1970, in seconds or milliseconds.
_EPOCH_S = 1e9
_EPOCH_MS = 1e12


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
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return _bounded(milliseconds / 1000)
    wait = _seconds(headers.get("retry-after"))
    if wait is None:
        resets = [reset for _, reset in _limits(headers)]
        wait = read_pause(headers) or min(resets, default=None)
    return wait


def _limits(headers: Mapping[str, str]) -> Iterator[tuple[float | None, float]]:
    for remaining, reset in _LIMITS:
        wait = _seconds(headers.get(reset))
        if wait is not None:
            yield _number(headers.get(remaining)), wait


def _seconds(text: str | None) -> float | None:
    """From now: of a number, a duration such as 6m0s, or a date."""
    if not text:
        return None
    text = text.strip()
    value = _number(text)
    if value is not None:
        if value >= _EPOCH_MS:
            value = value / 1000 - time.time()
        elif value >= _EPOCH_S:
            value -= time.time()
        return _bounded(value)
    if _DURATION.fullmatch(text):
        return _bounded(sum(float(n) * _UNITS[unit] for n, unit in _PART.findall(text)))
    try:
        date = parsedate_to_datetime(text)
        return _bounded(
            date.replace(tzinfo=date.tzinfo or UTC).timestamp() - time.time()
        )
    except (ValueError, TypeError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _bounded(seconds: float) -> float:
    return min(max(0.0, seconds), LONGEST_WAIT)
