"""What Ctrl-C does while calls are in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from toolbank.llm.limits.stop import Stop
from toolbank.system import aio
from toolbank.system.numbers import count
from toolbank.system.terminal import print_above_bars

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
