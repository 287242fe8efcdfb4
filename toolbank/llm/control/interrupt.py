"""What Ctrl-C does while calls are in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from toolbank.system import aio
from toolbank.system.terminal import tell

if TYPE_CHECKING:
    from toolbank.llm.ask import Asker

_WHY = "stopped by an interrupt"


@contextmanager
def interruptible(asker: Asker) -> Iterator[None]:
    """Let a first Ctrl-C (or SIGTERM) end the calls, and a second one all work at once.

    After the first, and when the minutes of a budget are over, what is in flight finishes. The
    second cancels the task that this is in; any more do nothing, so that it can clean up to the
    end of the block.
    """
    task = asyncio.current_task()
    count = 0

    def interrupt() -> None:
        nonlocal count
        count += 1
        if count == 1:
            tell(
                f"{_tell_rest(asker.gate.in_flight)}; a second Ctrl-C or SIGTERM stops at once."
            )
            asker.stop.ask("interrupt", _WHY)
        elif count == 2 and task is not None:
            task.cancel()

    with aio.interrupts(interrupt), asker.keep_minutes():
        try:
            yield
        except asyncio.CancelledError:
            if task is None or not count:
                raise
            while task.uncancel():
                pass
            asker.stop.ask("interrupt", _WHY)


def _tell_rest(calls: int) -> str:
    if not calls:
        return "stopping; no call is in flight"
    return f"finishing {'1 call' if calls == 1 else f'{calls:,} calls'} in flight"
