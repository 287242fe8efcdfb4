"""The time that the calls of a search have left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from time import monotonic

_ends_at: ContextVar[float] = ContextVar("ends_at", default=inf)


@contextmanager
def ending_within(seconds: float) -> Iterator[None]:
    """Give the calls of this block so many seconds; an outer block may leave them fewer."""
    token = _ends_at.set(min(_ends_at.get(), monotonic() + seconds))
    try:
        yield
    finally:
        _ends_at.reset(token)


def seconds_left() -> float:
    """Seconds that the block around the caller leaves; infinite if none limits its time."""
    return _ends_at.get() - monotonic()
