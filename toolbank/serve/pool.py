"""Searches on threads: so many at once, so many that wait, and not for ever."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from toolbank.serve.answers import Refusal
from toolbank.serve.settings import MOST_WAITING, SEARCH_TIME

T = TypeVar("T")


class Pool:
    """Threads that search, as many as there are processors."""

    def __init__(self) -> None:
        self._threads = os.cpu_count() or 1
        self._executor = ThreadPoolExecutor(self._threads, "search")
        self.running = 0
        self.refused = 0

    async def run(self, work: Callable[[], T]) -> T:
        """What a work gives.

        Raises:
            Refusal: too many wait already, or it took too long.
        """
        if self.running >= self._threads + MOST_WAITING:
            self.refused += 1
            raise Refusal(
                503, "Too many searches at once. Ask again.", {"Retry-After": "1"}
            )
        self.running += 1
        future = asyncio.get_running_loop().run_in_executor(self._executor, work)
        future.add_done_callback(self._count)
        try:
            return await asyncio.wait_for(asyncio.shield(future), SEARCH_TIME)
        except TimeoutError as error:
            future.cancel()
            raise Refusal(504, f"The search took over {SEARCH_TIME:g} s.") from error

    def close(self) -> None:
        """Let go of the threads."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _count(self, future: asyncio.Future[T]) -> None:
        self.running -= 1
        if not future.cancelled():
            future.exception()
