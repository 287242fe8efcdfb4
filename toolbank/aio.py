"""Running a coroutine from a plain function, wherever that is called."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

_T = TypeVar("_T")


def run(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Run to the end, in a thread of its own where this one has a loop, as in a notebook.

    An interrupt cancels the coroutine and is raised once that has cleaned up.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()

    async def carry() -> _T:
        task = asyncio.current_task()
        if task is not None:
            started.set_result((asyncio.get_running_loop(), task))
        return await coroutine

    with ThreadPoolExecutor(max_workers=1) as thread:
        result = thread.submit(asyncio.run, carry())
        try:
            return result.result()
        except KeyboardInterrupt:
            loop, task = started.result()
            # The loop is closed where the coroutine ended meanwhile.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(task.cancel)
            raise
