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


class Stopped(Exception):  # noqa: N818 - no error: the call was not made
    """The run is ending, and this call is not made, or not tried again."""


class EarlyEnd(NamedTuple):
    """Why a budget ends a run, for people, and the option of the command that goes on, if any."""

    message: str
    option: str = ""


class Stop:
    """Whether and why no more calls are made.

    What is in flight finishes in any case. `message` says for people why, and `option` what the
    command that goes on needs; `error` is what the run ends with, where it fails. An error or an
    interrupt outranks a spent budget.
    """

    def __init__(self) -> None:
        self.cause: Cause | None = None
        self.message = ""
        self.option = ""
        self.error: ToolbankError | None = None
        self._listeners: list[Callable[[], object]] = []

    def __bool__(self) -> bool:
        return self.cause is not None

    def ask(self, cause: Cause, message: str, option: str = "") -> None:
        """End the run: the first cause stays, but for a budget."""
        if self.cause in (None, "budget"):
            self.cause, self.message, self.option = cause, message, option
            for listener in self._listeners:
                listener()

    def fail(self, error: ToolbankError) -> None:
        """End the run with an error."""
        if self.error is None:
            self.error = error
        self.ask("error", str(error))

    def raise_error(self) -> None:
        """Raise the error, if there is one: it matters more than an interrupt before it.

        Raises:
            ToolbankError: what the run ends with.
        """
        if self.error is None:
            return
        if self.cause == "interrupt":
            raise ToolbankError(
                f"{self.error} (It came while the run was ended by an interrupt.)"
            ) from self.error
        raise self.error

    def listen(self, listener: Callable[[], object]) -> None:
        """Call `listener` when a stop is asked for."""
        self._listeners.append(listener)


_WHY = "stopped by an interrupt"


@contextmanager
def interruptible(stop: Stop, count_calls: Callable[[], int]) -> Iterator[None]:
    """Let a first Ctrl-C (or SIGTERM) end the calls, and a second one all work at once.

    After the first what is in flight finishes; `count_calls` gives how many calls are. The second
    cancels the task that this is in; any more do nothing, so that it can clean up to the end of
    the block.
    """
    task = asyncio.current_task()
    pressed = 0

    def interrupt() -> None:
        nonlocal pressed
        pressed += 1
        if pressed == 1:
            rest = _describe_rest(count_calls())
            print_above_bars(f"{rest}; a second Ctrl-C or SIGTERM stops at once.")
            stop.ask("interrupt", _WHY)
        elif pressed == 2 and task is not None:
            if calls := count_calls():
                said = count(calls, "call is", "calls are")
                print_above_bars(f"stopping at once; {said} given up in flight.")
            task.cancel()

    with aio.interrupts(interrupt):
        try:
            yield
        except asyncio.CancelledError:
            if task is None or not pressed:
                raise
            while task.uncancel():
                pass
            stop.ask("interrupt", _WHY)


def _describe_rest(calls: int) -> str:
    if not calls:
        return "stopping; no call is in flight"
    return f"finishing {count(calls, 'call')} in flight"
