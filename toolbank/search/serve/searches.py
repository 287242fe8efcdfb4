"""The served finders, each in its newest readable version, and their searches."""

from __future__ import annotations

import asyncio
import os
import re
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from toolbank.search.finder import SEARCH_TIME, Finder, unknown_pin
from toolbank.search.folder import read_version, version_folder
from toolbank.search.serve.feedback import FeedbackLog
from toolbank.search.serve.messages import (
    MOST_WAITING,
    RefusalError,
    SearchParameters,
    describe_answer,
)
from toolbank.system import deadline
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.folders import hash_files
from toolbank.system.terminal import print_message

T = TypeVar("T")
_TURNS = 16
"""The number of parts into which a batch is divided."""


# Searches that wait for an endpoint use no processor, and others must not queue behind them.
_SPARE = 8


class SearchThreads:
    """Search threads: one per processor, and some for searches that wait for an endpoint."""

    def __init__(self) -> None:
        self._threads = os.cpu_count() or 1
        self._executor = ThreadPoolExecutor(self._threads, "search")
        self._waiting = ThreadPoolExecutor(_SPARE, "search-by-endpoint")
        self.running = 0
        self.refused = 0

    async def run(self, work: Callable[[], T], *, waits: bool = False) -> T:
        """Run one task; see `run_each`."""
        return (await self.run_each([work], waits=waits))[0]

    async def run_each(
        self, works: Sequence[Callable[[], T]], *, waits: bool = False
    ) -> list[T]:
        """Run tasks; gives their results in order.

        A batch runs in parts, so that other requests get their turn in between. It has one time
        limit. `waits`: whether the tasks call an endpoint.

        Raises:
            RefusalError: too many tasks wait, or the time is up.
        """
        if self.running and (self.running + len(works) > self._threads + MOST_WAITING):
            self.refused += 1
            raise RefusalError(
                503, "Too many searches at once. Try again.", {"Retry-After": "1"}
            )
        self.running += len(works)
        executor = self._waiting if waits else self._executor
        run = partial(asyncio.get_running_loop().run_in_executor, executor)
        try:
            async with asyncio.timeout(SEARCH_TIME):
                size = max(1, -(-len(works) // _TURNS))
                done: list[T] = []
                for start in range(0, len(works), size):
                    done += await run(_work_off, works[start : start + size])
                return done
        except TimeoutError as error:
            raise RefusalError(
                504, f"The search took over {SEARCH_TIME:g} s."
            ) from error
        finally:
            self.running -= len(works)

    def close(self) -> None:
        """Stop the threads."""
        for executor in (self._executor, self._waiting):
            executor.shutdown(wait=False, cancel_futures=True)


def _work_off(works: Sequence[Callable[[], T]]) -> list[T]:
    return [work() for work in works]


_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """Counts by route and status, and durations of searches; no queries."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        self.nothing: Counter[str] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: Counter[str] = Counter()

    def searched(self, finder: str, seconds: float) -> None:
        """Count a search of a finder with its duration."""
        buckets = self._buckets.setdefault(finder, [0] * (len(_BOUNDS) + 1))
        buckets[bisect_left(_BOUNDS, seconds)] += 1
        self._seconds[finder] += seconds  # type: ignore[assignment]

    def text(self, others: Iterable[tuple[str, str, float]]) -> str:
        """Write Prometheus' text format; `others` are names, labels and values."""
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
        for name, labels, value in others:
            if name != named:
                kind = "counter" if name.endswith("_total") else "gauge"
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


_LOOKS = 2.0
"""Seconds between two checks for a newer version."""


class Shelf:
    """Packed finders by name; the first is the default."""

    def __init__(
        self,
        folders: Mapping[str, Path],
        pin: Sequence[str],
        tell: Callable[[str], None],
    ) -> None:
        """Open all of them.

        Raises:
            InputError: one can't be read, or none has a pinned tool.
        """
        self._folders, self._tell = folders, tell
        self._finders = {name: _open(path) for name, path in folders.items()}
        self._refused: dict[str, tuple[str, dict[str, str]]] = {}
        self._pins = {
            name: [tool for tool in pin if tool in finder.tools.places]
            for name, finder in self._finders.items()
        }
        for name, finder in self._finders.items():
            finder.pin(self._pins[name])
        pinned = {tool for tools in self._pins.values() for tool in tools}
        for tool in pin:
            if tool not in pinned:
                raise unknown_pin(tool)
        self.on_renewal: Callable[[str, Finder], None] = lambda *_: None
        self._asked = asyncio.Event()
        self.reloads = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the finders; the first is the default."""
        return tuple(self._folders)

    def __getitem__(self, name: str) -> Finder:
        return self._finders[name]

    def items(self) -> list[tuple[str, Finder]]:
        """List the names with the current versions."""
        return list(self._finders.items())

    def look_now(self) -> None:
        """Check for newer versions immediately."""
        self._refused.clear()
        self._asked.set()

    async def watch(self) -> None:
        """Load newer versions, forever; report those that can't be read."""
        while True:
            for name, folder in self._folders.items():
                try:
                    await asyncio.to_thread(self._renew, name, folder)
                except Exception as error:  # such as no more threads
                    self._say(f"{name}: cannot be read ({error}).")
            try:
                await asyncio.wait_for(self._asked.wait(), _LOOKS)
            except TimeoutError:
                continue
            self._asked.clear()

    def _renew(self, name: str, folder: Path) -> None:
        # Whatever is wrong, the current version has to stay, and the next one be checked.
        version, files = "", dict[str, str]()
        try:
            version = read_version(folder)
            if version == self._finders[name].version:
                return
            # A version that is still being copied changes until the next check.
            files = hash_files(version_folder(folder, version))
            if self._refused.get(name) == (version, files):
                return
            finder = _open(folder)
            finder.pin(self._pins[name])
            self.on_renewal(name, finder)
        except Exception as error:
            told, _ = self._refused.get(name, (None, None))
            self._refused[name] = version, files
            if told != version:
                why = str(error)
                if not isinstance(error, ToolbankError):
                    why = (
                        f"{folder}: cannot be opened ({type(error).__name__}: {error})."
                    )
                now = self._finders[name].version
                self._say(f"{name}: {why} Version {now} stays in use.")
            return
        self._finders[name] = finder
        self._refused.pop(name, None)
        self.reloads += 1
        self._say(
            f"{name}: now version {finder.version}, {len(finder.tools):,} tools; "
            f"{self.explain_scores(name)}"
        )

    def explain_scores(self, name: str) -> str:
        """Say what the scores of a finder's default retriever mean."""
        finder = self._finders[name]
        return finder.explain_scores(next(iter(finder.retrievers)))

    def _say(self, message: str) -> None:
        # The terminal may be closed.
        with suppress(OSError, ValueError):
            self._tell(message)


def _open(folder: Path) -> Finder:
    finder = Finder.open(folder)
    for label in finder.retrievers:
        # The first search of a network is slow.
        finder.search("warm up", 1, label)
    finder.nearest_requests("warm up")
    return finder


_RESERVED = re.compile(
    r"search|tools|facets|nearest|feedback|mcp|healthz|metrics|openapi\.json|page\.(js|css)"
)
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


def name_folders(given: Sequence[str]) -> dict[str, Path]:
    """Read `[NAME=]DIR` arguments; without a name, it is that of the folder.

    Raises:
        InputError: two have the same name, or a name is not valid in an address.
    """
    found: dict[str, Path] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if equals and not path:
            raise InputError(f"{text}: the folder is missing. Give NAME=DIR.")
        folder = Path(path if equals else text)
        if not equals:
            name = folder.resolve().name
        if _RESERVED.fullmatch(name) or not _NAME.fullmatch(name):
            raise InputError(
                f"{text}: {name!r} cannot be the name of a finder. Use letters, digits, -, _ and ., "
                "and not a route of the server: NAME=DIR."
            )
        if name in found:
            raise InputError(
                f"{text}: there is a finder {name!r} already. Give NAME=DIR."
            )
        found[name] = folder
    return found


class Searches:
    """Searches finders over HTTP and MCP, with the same threads and metrics."""

    def __init__(self, shelf: Shelf, log: FeedbackLog | None = None) -> None:
        self.shelf, self.log = shelf, log
        self.pool, self.metrics = SearchThreads(), Metrics()

    def log_call(self, client: str, tool: str, outcome: str, seconds: float) -> None:
        """Log a call on stderr, and in the log if there is one."""
        print_message(f"{client} called {tool}: {outcome} after {seconds:.1f} s")
        if self.log is not None:
            self.log.called(client, tool, outcome, seconds)

    async def run(
        self,
        name: str,
        queries: Sequence[str],
        asked: SearchParameters,
        write: Callable[[dict[str, Any]], T],
    ) -> list[T]:
        """Search a finder for each query; `write` converts the answers on a thread.

        Raises:
            RefusalError: the finder refuses a parameter, the queue is full, or the time is up.
        """
        began = time.perf_counter()
        ends = began + SEARCH_TIME
        finder = self.shelf[name]

        def search(query: str) -> tuple[T, bool]:
            try:
                # A call ends when nobody waits for the search any more.
                with deadline.ending_within(ends - time.perf_counter()):
                    answer = finder.answer(
                        query, asked.k, asked.min_score, asked.filter, asked.retriever
                    )
            except InputError as error:
                raise RefusalError(400, str(error)) from error
            except ToolbankError as error:  # such as an endpoint that is down
                raise RefusalError(502, str(error)) from error
            content = describe_answer(answer)
            if self.log is not None:
                content["id"] = self.log.searched(name, query, answer)
            return write(content), answer.fits is False or not answer.hits

        works = [partial(search, one) for one in queries]
        results = await self.pool.run_each(works, waits=finder.calls_endpoint)
        self.metrics.nothing[name] += sum(is_unfit for _, is_unfit in results)
        self.metrics.searched(name, time.perf_counter() - began)
        return [written for written, _ in results]
