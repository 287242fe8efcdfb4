"""The searches of a server: bounded, counted, and on threads."""

from __future__ import annotations

import asyncio
import os
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from toolbank.search.packed import PackedFinder
from toolbank.search.serve.feedback import FeedbackLog
from toolbank.search.serve.messages import Asked, Refusal, describe_answer
from toolbank.search.serve.shelf import MOST_WAITING, SEARCH_TIME, Shelf
from toolbank.system.errors import InputError

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


_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """Counts by route and status, and how long searches took; nothing of what was asked."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        self.nothing: Counter[str] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: Counter[str] = Counter()

    def searched(self, finder: str, seconds: float) -> None:
        """Count a search of a finder, with the time from its coming to its answer."""
        buckets = self._buckets.setdefault(finder, [0] * (len(_BOUNDS) + 1))
        buckets[bisect_left(_BOUNDS, seconds)] += 1
        self._seconds[finder] += seconds  # type: ignore[assignment]

    def text(self, gauges: Iterable[tuple[str, str, str, float]]) -> str:
        """All of it in Prometheus' text format; `gauges` are name, kind, labels and value."""
        lines = ["# TYPE toolbank_requests_total counter"]
        for (route, status), times in sorted(self.requests.items()):
            labels = f'route="{route}",status="{status}"'
            lines.append(f"toolbank_requests_total{{{labels}}} {times}")
        lines.append("# TYPE toolbank_nothing_fits_total counter")
        for finder, times in sorted(self.nothing.items()):
            lines.append(f'toolbank_nothing_fits_total{{finder="{finder}"}} {times}')
        lines.append("# TYPE toolbank_search_seconds histogram")
        for finder, buckets in sorted(self._buckets.items()):
            lines += _histogram(finder, buckets, self._seconds[finder])
        named = ""
        for name, kind, labels, value in gauges:
            if name != named:
                lines.append(f"# TYPE {name} {kind}")
            named = name
            lines.append(f"{name}{labels} {value:g}")
        return "\n".join(lines) + "\n"


def _histogram(finder: str, buckets: list[int], seconds: float) -> list[str]:
    lines, below = [], 0
    for bound, times in zip((*_BOUNDS, "+Inf"), buckets, strict=True):
        below += times
        labels = f'finder="{finder}",le="{bound}"'
        lines.append(f"toolbank_search_seconds_bucket{{{labels}}} {below}")
    lines.append(f'toolbank_search_seconds_sum{{finder="{finder}"}} {seconds:.6f}')
    lines.append(f'toolbank_search_seconds_count{{finder="{finder}"}} {below}')
    return lines


class Searches:
    """Searches the finders of a shelf; over HTTP and MCP by the same threads and counts."""

    def __init__(self, shelf: Shelf, log: FeedbackLog | None = None) -> None:
        self.shelf, self.log = shelf, log
        self.pool, self.metrics = Pool(), Metrics()

    async def run(
        self, name: str, asked: Asked, write: Callable[[dict[str, Any]], T]
    ) -> list[T]:
        """Search a finder for each request; what `write` makes of the answers, on a thread.

        Raises:
            Refusal: the finder can't be asked so, too many wait, or it took too long.
        """
        began = time.perf_counter()
        finder = self.shelf[name]
        results = await self.pool.run_each(
            [
                partial(self._search, name, finder, asked, query, write)
                for query in asked.queries
            ]
        )
        self.metrics.nothing[name] += sum(is_unfit for _, is_unfit in results)
        self.metrics.searched(name, time.perf_counter() - began)
        return [written for written, _ in results]

    def _search(
        self,
        name: str,
        finder: PackedFinder,
        asked: Asked,
        query: str,
        write: Callable[[dict[str, Any]], T],
    ) -> tuple[T, bool]:
        try:
            answer = finder.answer(
                query, asked.k, asked.min_score, asked.wanted, asked.retriever
            )
        except InputError as error:
            raise Refusal(400, str(error)) from error
        content = describe_answer(answer)
        if self.log is not None:
            content["id"] = self.log.searched(name, query, answer)
        return write(content), answer.fits is False or not answer.hits
