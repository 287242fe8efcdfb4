"""When the next request may be sent, and when none may any more."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from toolbank.sources.web.answer import Answer
from toolbank.sources.web.crawl_settings import CrawlSettings
from toolbank.sources.web.failures import BrokenOffError, NotAskedError, UnansweredError
from toolbank.system.net import read_seconds

_FAILURES_IN_A_ROW = 30
_START_INTERVAL_S = 0.5
_LONGEST_INTERVAL_S = 60.0


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

    A 429 or 503 with Retry-After holds back every request, and so does Crawl-delay. A gentle crawl
    leaves the longer between two requests the slower the site answers. Once a limit of the crawl
    is reached, or the site asks for too long a pause or does not answer any more, `ended` says so
    and each further request fails with it as its reason.
    """

    def __init__(self, settings: CrawlSettings) -> None:
        self.sent = 0
        self.ended = ""
        self._settings = settings
        self._policy = settings.policy
        self._clock = CLOCK
        self._deadline = self._clock.monotonic() + self._policy.crawl_min * 60
        self._asked_interval_s = 0.0
        self._interval_s = settings.delay_s
        if settings.adapts:
            self._interval_s = max(_START_INTERVAL_S, settings.delay_s)
        self._next_start = 0.0
        self._failures = 0
        self._over = asyncio.Event()

    @property
    def refusal(self) -> str:
        """Why nothing more may be sent; "" as long as something may."""
        return f"not asked for: {self.ended}" if self.ended else ""

    async def admit(self, tries: int = 0) -> None:
        """Wait for a request's turn, and count it; after failed tries, twice as long each time.

        Raises:
            NotAskedError: the crawl ended, or would before the turn comes.
        """
        self._check()
        if tries:
            wait = self._settings.first_wait_s * 2 ** (tries - 1)
            await self._pause(min(wait, self._policy.wait_s))
        while True:
            wait = self._next_start - self._clock.monotonic()
            if wait <= 0:
                break
            await self._pause(wait)
        self._check()
        interval = max(self._interval_s, self._asked_interval_s)
        self._next_start = self._clock.monotonic() + interval
        self.sent += 1

    def note(self, answer: Answer, latency_s: float) -> None:
        """Take from an answer how long the site wants to be left alone."""
        self._failures = 0
        if self._settings.adapts:
            self._adapt(answer, latency_s)
        if answer.status in (429, 503):
            said = answer.headers.get("retry-after", "")
            wait = read_seconds(said, self._clock.time())
            if wait is not None and wait > self._policy.wait_s:
                self.end(f"the site asked for a pause of {wait:.0f} s")
            elif wait is not None:
                self._next_start = max(self._next_start, self._clock.monotonic() + wait)

    def note_failure(self, error: UnansweredError | BrokenOffError) -> None:
        """Notice a site that is gone: many tries in a row without any answer."""
        self._failures = self._failures + 1 if isinstance(error, UnansweredError) else 0
        if self._failures >= _FAILURES_IN_A_ROW:
            self.end("the site did not answer any more")

    def keep_interval(self, seconds: float) -> None:
        """Leave at least so much between two requests."""
        self._asked_interval_s = seconds
        if seconds > self._policy.wait_s:
            self.end(f"robots.txt asks for {seconds:.0f} s between requests")

    def end(self, reason: str) -> None:
        """Send nothing more; what was sent may still be answered."""
        self.ended = self.ended or reason
        self._over.set()

    def _adapt(self, answer: Answer, latency_s: float) -> None:
        """Come halfway to as many requests in flight as are wanted; errors come fast, and count less."""
        wanted = latency_s / self._settings.concurrency
        interval = max(wanted, (self._interval_s + wanted) / 2)
        interval = min(max(interval, self._settings.delay_s), _LONGEST_INTERVAL_S)
        if answer.status == 200 or interval > self._interval_s:
            self._interval_s = interval

    async def _pause(self, seconds: float) -> None:
        self._check(seconds)
        await self._clock.wait(self._over, seconds)
        self._check()

    def _check(self, wait: float = 0.0) -> None:
        if self.sent >= self._policy.requests:
            self.end(f"limit of {self._policy.requests} requests")
        if self._clock.monotonic() + wait > self._deadline:
            self.end(f"limit of {self._policy.crawl_min:g} minutes")
        if self.ended:
            raise NotAskedError(self.refusal)
