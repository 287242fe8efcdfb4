"""Waits as servers put them into headers."""

from __future__ import annotations

import math
import re
from datetime import UTC
from email.utils import parsedate_to_datetime

_UNITS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}
_PART = re.compile(r"(\d+(?:\.\d*)?)(ms|us|d|h|m|s)")
_DURATION = re.compile(rf"(?:{_PART.pattern})+")
# A larger number is a time since 1970, in seconds or milliseconds.
_EPOCH_S = 1e9
_EPOCH_MS = 1e12


def read_seconds(text: str, now: float) -> float | None:
    """Seconds from `now`, a time since 1970, or None where the text says no wait.

    Read are a number of seconds or a date, as in Retry-After (RFC 9110, 10.2.3), a duration such
    as 6m0s, and a time since 1970 in seconds or milliseconds. What is over is 0.
    """
    text = text.strip()
    if not text:
        return None
    value = read_number(text)
    if value is not None:
        if value >= _EPOCH_MS:
            value = value / 1000 - now
        elif value >= _EPOCH_S:
            value -= now
        return max(0.0, value)
    if _DURATION.fullmatch(text):
        return sum(float(n) * _UNITS[unit] for n, unit in _PART.findall(text))
    try:
        date = parsedate_to_datetime(text)
        return max(0.0, date.replace(tzinfo=date.tzinfo or UTC).timestamp() - now)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def read_number(text: str) -> float | None:
    """A finite number; None where the text is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
