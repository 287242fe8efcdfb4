"""Ending a run early: one place that is told, and everybody who waits hears of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from toolbank.system.errors import ToolbankError

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
