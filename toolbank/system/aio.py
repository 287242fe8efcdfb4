"""Run a coroutine from a plain function, limit its time, and handle interrupts."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future, wait
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

_T = TypeVar("_T")

note_progress: ContextVar[Callable[[], None]] = ContextVar(
    "note_progress", default=lambda: None
)
"""Restarts the innermost `time_limit` of the code that calls it."""


@asynccontextmanager
async def time_limit(
    seconds: float | None, total: float | None = None
) -> AsyncIterator[None]:
    """Raise TimeoutError after so many seconds without progress, at most after `total` seconds."""
    loop = asyncio.get_running_loop()
    end = total and loop.time() + total

    def restart() -> None:
        at = loop.time() + seconds if seconds else None
        # The block may have ended meanwhile.
        with suppress(RuntimeError):
            timeout.reschedule(min(at, end) if at and end else at)

    async with asyncio.timeout(seconds) as timeout:
        token = note_progress.set(restart)
        try:
            yield
        finally:
            note_progress.reset(token)


def run(coroutine: Coroutine[Any, Any, _T], *, uvloop: bool = False) -> _T:
    """Run a coroutine to the end, in another thread if this one has a loop, as in a notebook.

    With `uvloop`, a call to an endpoint takes a tenth less CPU, but addresses are resolved in
    another way. It does not exist for Windows.

    An interrupt cancels the coroutine, and is raised after its cleanup.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run(coroutine, uvloop)
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()
    result: Future[_T] = Future()

    async def carry() -> _T:
        task = asyncio.current_task()
        if task is not None:
            started.set_result((asyncio.get_running_loop(), task))
        return await coroutine

    def work() -> None:
        try:
            result.set_result(_run(carry(), uvloop))
        except BaseException as error:
            result.set_exception(error)

    thread = threading.Thread(target=copy_context().run, args=(work,))
    try:
        thread.start()
        return result.result()
    except KeyboardInterrupt:
        loop, running = started.result()
        # The loop is closed if the coroutine has ended meanwhile.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(running.cancel)
        wait([result])
        raise


def _run(coroutine: Coroutine[Any, Any, _T], uvloop: bool) -> _T:
    factory = _new_uvloop if uvloop else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(coroutine)


def _new_uvloop() -> asyncio.AbstractEventLoop:
    try:
        from uvloop import new_event_loop
    except ImportError:
        return asyncio.new_event_loop()
    return new_event_loop()


@contextmanager
def interrupts(handle: Callable[[], None]) -> Iterator[None]:
    """Call `handle` in the running loop for each SIGINT and SIGTERM.

    A signal that is ignored stays so: shells ignore SIGINT in background commands of a script.
    Outside of the main thread, and on systems without signals, nothing changes.
    """
    loop = asyncio.get_running_loop()
    earlier = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            before = signal.getsignal(number)
            if before == signal.SIG_IGN:
                continue
            with suppress(NotImplementedError):
                loop.add_signal_handler(number, handle)
                earlier[number] = before
    try:
        yield
    finally:
        for number, before in earlier.items():
            loop.remove_signal_handler(number)
            signal.signal(number, before)
