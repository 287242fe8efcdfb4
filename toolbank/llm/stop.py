"""End a run early: on Ctrl-C, or after too many failures in a row."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

from toolbank.system import aio
from toolbank.system.errors import ToolbankError
from toolbank.system.numbers import count
from toolbank.system.terminal import print_above_bars

Cause = Literal["interrupt", "budget", "error"]


class StoppedError(Exception):
    """The run is ending, and this call is not made, or not tried again."""


class EarlyEnd(NamedTuple):
    """Why a budget ends a run, and the command option that continues it, if any."""

    message: str
    option: str = ""


class Stop:
    """Whether and why no more calls are made; calls in flight still finish.

    `message` says why, and `option` is what the command that continues needs; `error` is set if
    the run fails. An error or an interrupt replaces a spent budget.
    """

    def __init__(self) -> None:
        self.cause: Cause | None = None
        self.message = ""
        self.option = ""
        self.error: ToolbankError | None = None
        self._listeners: list[Callable[[], object]] = []

    def __bool__(self) -> bool:
        return self.cause is not None

    def end(self, cause: Cause, message: str, option: str = "") -> None:
        """End the run; the first cause stays unless it is a budget."""
        if self.cause in (None, "budget"):
            self.cause, self.message, self.option = cause, message, option
            for listener in self._listeners:
                listener()

    def fail(self, error: ToolbankError) -> None:
        """End the run with an error."""
        if self.error is None:
            self.error = error
        self.end("error", str(error))

    def listen(self, listener: Callable[[], object]) -> None:
        """Call `listener` when the run is ended."""
        self._listeners.append(listener)


_WHY = "stopped by an interrupt"


@contextmanager
def interruptible(stop: Stop, count_calls: Callable[[], int]) -> Iterator[None]:
    """Let a first Ctrl-C (or SIGTERM) end new calls, and a second one stop all work at once.

    After the first, calls in flight finish; `count_calls` returns how many there are. The second
    cancels the current task; later ones do nothing, so that the block can clean up.
    """
    task = asyncio.current_task()
    pressed = 0

    def interrupt() -> None:
        nonlocal pressed
        pressed += 1
        if pressed == 1:
            calls = count_calls()
            rest = (
                f"finishing {count(calls, 'call')} in flight"
                if calls
                else "stopping; no call is in flight"
            )
            print_above_bars(f"{rest}; a second Ctrl-C or SIGTERM stops at once.")
            stop.end("interrupt", _WHY)
        elif pressed == 2 and task is not None:
            if calls := count_calls():
                lost = count(calls, "call is", "calls are")
                print_above_bars(f"stopping at once; {lost} given up in flight.")
            task.cancel()

    with aio.interrupts(interrupt):
        try:
            yield
        except asyncio.CancelledError:
            if task is None or not pressed:
                raise
            while task.uncancel():
                pass
            stop.end("interrupt", _WHY)
