"""When the next request may be sent, and when none may any more."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import (
    DownloadCancelledError,
    IgnoreRequest,
    ResponseDataLossError,
)
from scrapy.http import Response

from toolbank.sources.sphinx.crawl_policy import CrawlPolicy
from toolbank.sources.sphinx.web.refusals import NotAsked

_FAILURES_IN_A_ROW = 30


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)


@dataclass(frozen=True)
class Clock:
    """What a throttle goes by: seconds that only grow, seconds since 1970, and a wait.

    The wait lasts until an event, but at most so many seconds.
    """

    monotonic: Callable[[], float] = time.monotonic
    time: Callable[[], float] = time.time
    wait: Callable[[asyncio.Event, float], Awaitable[None]] = _wait


CLOCK = Clock()


class Throttle:
    """Counts and delays what is sent to the site.

    A 429 or 503 with Retry-After holds back every request, and so does Crawl-delay. Once a limit
    of the crawl is reached, or the site asks for too long a pause or does not answer any more,
    `ended` says so and each further request fails with it as its reason.
    """

    def __init__(self, policy: CrawlPolicy, first_wait_s: float, clock: Clock) -> None:
        self.sent = 0
        self.ended = ""
        self._policy = policy
        self._first_wait_s = first_wait_s
        self._clock = clock
        self._deadline = clock.monotonic() + policy.crawl_min * 60
        self._interval_s = 0.0
        self._next_start = 0.0
        self._failures = 0
        self._over = asyncio.Event()
        self._asking: set[asyncio.Task[Response]] = set()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "Throttle":
        """Scrapy's constructor."""
        settings = crawler.settings
        return cls(
            settings["CRAWL_POLICY"], settings.getfloat("RETRY_FIRST_WAIT_S"), CLOCK
        )

    @property
    def refusal(self) -> str:
        """Why nothing more may be sent; "" as long as something may."""
        return f"not asked for: {self.ended}" if self.ended else ""

    async def process_request(self, request: Request) -> None:
        """Hold a request back after a failed try, twice as long each time.

        Raises:
            NotAsked: the crawl ended.
        """
        self._check()
        tries = request.meta.get("retry_times", 0)
        if tries:
            wait = min(self._first_wait_s * 2 ** (tries - 1), self._policy.wait_s)
            self._check(wait)
            await self._clock.wait(self._over, wait)
            self._check()

    def process_exception(
        self,
        request: Request,  # noqa: ARG002 - Scrapy gives both
        exception: Exception,
    ) -> None:
        """Notice a site that is gone: many tries in a row without any answer."""
        if isinstance(exception, IgnoreRequest):
            return
        has_answered = isinstance(
            exception, ResponseDataLossError | DownloadCancelledError
        )
        self._failures = 0 if has_answered else self._failures + 1
        if self._failures >= _FAILURES_IN_A_ROW:
            self.end("the site did not answer any more")

    async def admit(self) -> None:
        """Wait for a request's turn, and count it.

        Raises:
            NotAsked: the crawl ended, or would before the turn comes.
        """
        while True:
            wait = self._next_start - self._clock.monotonic()
            self._check(wait)
            if wait <= 0:
                break
            await self._clock.wait(self._over, wait)
        self._next_start = self._clock.monotonic() + self._interval_s
        self.sent += 1

    def note(self, response: Response) -> None:
        """Take from an answer how long the site wants to be left alone."""
        self._failures = 0
        if response.status in (429, 503):
            wait = _retry_after_s(response, self._clock.time())
            if wait is not None and wait > self._policy.wait_s:
                self.end(f"the site asked for a pause of {wait:.0f} s")
            elif wait is not None:
                self._next_start = max(self._next_start, self._clock.monotonic() + wait)

    def keep_interval(self, seconds: float) -> None:
        """Leave at least so much between two requests."""
        self._interval_s = seconds
        if seconds > self._policy.wait_s:
            self.end(f"robots.txt asks for {seconds:.0f} s between requests")

    async def carry(self, asking: Coroutine[Any, Any, Response]) -> Response:
        """See a request through, unless the crawl is stopped meanwhile.

        Raises:
            NotAsked: it was stopped.
        """
        task = asyncio.ensure_future(asking)
        self._asking.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if not self._over.is_set():
                raise
            raise NotAsked("stopped") from None
        finally:
            self._asking.discard(task)

    def end(self, reason: str) -> None:
        """Send nothing more; what was sent may still be answered."""
        self.ended = self.ended or reason
        self._over.set()

    def stop(self) -> None:
        """Send nothing more, and wait for no answer either."""
        self.end("stopped")
        for task in self._asking:
            task.cancel()

    def _check(self, wait: float = 0.0) -> None:
        if self.sent >= self._policy.requests:
            self.end(f"limit of {self._policy.requests} requests")
        if self._clock.monotonic() + wait > self._deadline:
            self.end(f"limit of {self._policy.crawl_min:g} minutes")
        if self.ended:
            raise NotAsked(self.refusal)


def _retry_after_s(response: Response, now: float) -> float | None:
    """Seconds that Retry-After asks for, as a number or a date; None where it says neither."""
    value = (response.headers.get("Retry-After") or b"").decode("latin-1").strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        until = parsedate_to_datetime(value)
        if until.tzinfo is None:
            until = until.replace(tzinfo=UTC)
        return max(0.0, until.timestamp() - now)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
