"""What Ctrl-C does while calls are in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from toolbank import aio
from toolbank.terminal import tell

if TYPE_CHECKING:
    from toolbank.llm.ask import Asker


@contextmanager
def interruptible(asker: Asker) -> Iterator[None]:
    """Let a first Ctrl-C (or SIGTERM) end the calls, and a second one all work at once.

    After the first, what is in flight finishes. The second cancels the task that this is in, up
    to the end of the block.
    """
    task = asyncio.current_task()
    count = 0

    def interrupt() -> None:
        nonlocal count
        count += 1
        if count == 1:
            calls = asker.gate.in_flight
            told = "1 call" if calls == 1 else f"{calls:,} calls"
            tell(f"finishing {told} in flight; Ctrl-C again stops now.")
            asker.stop.ask("interrupt", "stopped by an interrupt")
        elif task is not None:
            task.cancel()

    with aio.interrupts(interrupt):
        try:
            yield
        except asyncio.CancelledError:
            if task is None or count < 2 or task.uncancel():
                raise
            asker.stop.ask("interrupt", "stopped by an interrupt")
