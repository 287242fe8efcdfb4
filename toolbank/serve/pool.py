"""Searches on threads: so many at once, so many that wait, and not for ever."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from toolbank.serve.answers import Refusal
from toolbank.serve.settings import MOST_WAITING, SEARCH_TIME

T = TypeVar("T")
_TURNS = 16
"""Into how many parts the searches of a batch are cut."""


class Pool:
    """Threads that search, as many as there are processors."""

    def __init__(self) -> None:
        self._threads = os.cpu_count() or 1
        self._executor = ThreadPoolExecutor(self._threads, "search")
        self.running = 0
        self.refused = 0

    async def run(self, work: Callable[[], T]) -> T:
        """What a work gives; see `run_each`."""
        return (await self.run_each([work]))[0]

    async def run_each(self, works: Sequence[Callable[[], T]]) -> list[T]:
        """What each work gives, in their order.

        They come to a thread some at a time, so that those of others get their turn between, and
        have one time together.

        Raises:
            Refusal: too many wait already, or it took too long.
        """
        if self.running and (self.running + len(works) > self._threads + MOST_WAITING):
            self.refused += 1
            raise Refusal(
                503, "Too many searches at once. Ask again.", {"Retry-After": "1"}
            )
        self.running += len(works)
        run = partial(asyncio.get_running_loop().run_in_executor, self._executor)
        try:
            async with asyncio.timeout(SEARCH_TIME):
                size = max(1, -(-len(works) // _TURNS))
                done: list[T] = []
                for start in range(0, len(works), size):
                    done += await run(_work_off, works[start : start + size])
                return done
        except TimeoutError as error:
            raise Refusal(504, f"The search took over {SEARCH_TIME:g} s.") from error
        finally:
            self.running -= len(works)

    def close(self) -> None:
        """Let go of the threads."""
        self._executor.shutdown(wait=False, cancel_futures=True)


def _work_off(works: Sequence[Callable[[], T]]) -> list[T]:
    return [work() for work in works]
