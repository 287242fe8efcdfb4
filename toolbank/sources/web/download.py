"""Send requests to a site at the rate that it allows."""

import asyncio
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress

import aiohttp

from toolbank.sources.web.answer import (
    BrokenOffError,
    NotAskedError,
    RefusedError,
    RequestError,
    UnansweredError,
    WebResponse,
)
from toolbank.sources.web.policy import CrawlSettings
from toolbank.system.http import (
    EncodingError,
    PrivateAddressError,
    make_connector,
    read_body,
)
from toolbank.system.net import read_seconds

_HEADERS = {
    "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "Accept-Encoding": "gzip, deflate",
    "Accept-Language": "en",
}


class Downloader:
    """Sends single requests, checks addresses, and limits the size of responses."""

    def __init__(self, settings: CrawlSettings) -> None:
        self._settings = settings
        self._session = aiohttp.ClientSession(
            connector=make_connector(
                guards=settings.guards,
                limit=settings.concurrency,
                ssl=settings.verifies,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={**_HEADERS, "User-Agent": settings.user_agent},
            timeout=aiohttp.ClientTimeout(total=settings.policy.request_s),
            auto_decompress=False,
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def send(
        self, url: str, headers: Mapping[str, str], cut_at: int | None = None
    ) -> tuple[WebResponse, float]:
        """Request a page; return the response and the seconds until its headers.

        An unpacked response longer than `cut_at` bytes is cut one byte after.

        Raises:
            RefusedError: the site is at a private address, its certificate is not valid, or the
                response is too large or has an unknown encoding.
            UnansweredError: it could not be reached, or the request timed out.
            BrokenOffError: the response ended too early.
        """
        started = time.monotonic()
        try:
            async with self._session.get(
                url,
                headers=headers,
                allow_redirects=False,
                proxy=self._settings.proxy,
            ) as response:
                latency = time.monotonic() - started
                body = await self._read(response, cut_at)
        except PrivateAddressError as error:
            raise RefusedError(
                f"at a private address, {error.address}; if that is meant, "
                "--private-addresses, or crawl.private_addresses in a recipe, lets it in"
            ) from error
        except (aiohttp.ClientError, OSError, zlib.error) as error:
            raise next(
                reason for kind, reason in _failures() if isinstance(error, kind)
            ) from error
        given = {name.lower(): value for name, value in response.headers.items()}
        return WebResponse(url, response.status, given, body), latency

    async def _read(
        self, response: aiohttp.ClientResponse, cut_at: int | None
    ) -> bytes:
        packing = response.headers.get("Content-Encoding", "").strip().lower()
        is_packed = packing not in ("", "identity")
        most = self._settings.max_bytes
        if cut_at is not None and not is_packed:
            return (await read_body(response, cut_at + 1))[0]
        if (response.content_length or 0) > most:
            raise RefusedError("too large")
        try:
            body, is_whole = await read_body(response, most)
        except EncodingError as error:
            raise RefusedError("packed in an unknown way") from error
        if not is_whole:
            raise RefusedError("too large when unpacked" if is_packed else "too large")
        return body


def _failures() -> tuple[tuple[type[Exception], RequestError], ...]:
    """The reasons for exceptions; the first that matches counts."""
    return (
        (TimeoutError, UnansweredError("timed out")),
        (aiohttp.InvalidURL, UnansweredError("no address that can be asked")),
        (aiohttp.ClientConnectorDNSError, UnansweredError("host not found")),
        (aiohttp.ClientSSLError, RefusedError("its certificate can't be trusted")),
        (aiohttp.ClientConnectorError, UnansweredError("connection refused")),
        (aiohttp.ClientPayloadError, BrokenOffError("broken off")),
        (zlib.error, BrokenOffError("broken off")),
        (Exception, UnansweredError("connection failed")),
    )


_FAILURES_IN_A_ROW = 30
_START_INTERVAL_S = 0.5
_LONGEST_INTERVAL_S = 60.0


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)


class Throttle:
    """Counts and delays requests to the site.

    A 429 or 503 with Retry-After delays every request, and so does Crawl-delay. A crawl that adapts
    waits longer between requests the slower the site answers. Once a limit is reached, the site
    asks for too long a pause, or does not answer any more, `ended` is the reason, and every further
    request fails with it.
    """

    def __init__(self, settings: CrawlSettings) -> None:
        self.sent = 0
        self.ended = ""
        self._settings = settings
        self._policy = settings.policy
        self._deadline = time.monotonic() + self._policy.crawl_min * 60
        self._asked_interval_s = 0.0
        self._interval_s = settings.delay_s
        if settings.adapts:
            self._interval_s = max(_START_INTERVAL_S, settings.delay_s)
        self._next_start = 0.0
        self._failures = 0
        self._over = asyncio.Event()

    @property
    def refusal(self) -> str:
        """Why no more requests are sent, or ""."""
        return f"not asked for: {self.ended}" if self.ended else ""

    async def admit(self, tries: int = 0) -> None:
        """Wait for a request's turn and count it; each retry waits twice as long.

        Raises:
            NotAskedError: the crawl ended, or would end before the turn comes.
        """
        self._check()
        if tries:
            wait = self._settings.first_wait_s * 2 ** (tries - 1)
            await self._pause(min(wait, self._policy.wait_s))
        while True:
            wait = self._next_start - time.monotonic()
            if wait <= 0:
                break
            await self._pause(wait)
        self._check()
        interval = max(self._interval_s, self._asked_interval_s)
        self._next_start = time.monotonic() + interval
        self.sent += 1

    def note(self, answer: WebResponse, latency_s: float) -> None:
        """Adapt the delay to a response."""
        self._failures = 0
        if self._settings.adapts:
            self._adapt(answer, latency_s)
        if answer.status in (429, 503):
            retry_after = answer.headers.get("retry-after", "")
            wait = read_seconds(retry_after, time.time())
            if wait is not None and wait > self._policy.wait_s:
                self.end(f"the site asked for a pause of {wait:.0f} s")
            elif wait is not None:
                self._next_start = max(self._next_start, time.monotonic() + wait)

    def note_failure(self, error: UnansweredError | BrokenOffError) -> None:
        """End the crawl after many requests in a row without a response."""
        self._failures = self._failures + 1 if isinstance(error, UnansweredError) else 0
        if self._failures >= _FAILURES_IN_A_ROW:
            self.end("the site did not answer any more")

    def keep_interval(self, seconds: float) -> None:
        """Set the minimum interval between two requests."""
        self._asked_interval_s = seconds
        if seconds > self._policy.wait_s:
            self.end(f"robots.txt asks for {seconds:.0f} s between requests")

    def end(self, reason: str) -> None:
        """Send no more requests; pending ones may still be answered."""
        self.ended = self.ended or reason
        self._over.set()

    def _adapt(self, answer: WebResponse, latency_s: float) -> None:
        """Move the interval halfway to that of `concurrency` requests; errors only raise it."""
        wanted = latency_s / self._settings.concurrency
        interval = max(wanted, (self._interval_s + wanted) / 2)
        interval = min(max(interval, self._settings.delay_s), _LONGEST_INTERVAL_S)
        if answer.status == 200 or interval > self._interval_s:
            self._interval_s = interval

    async def _pause(self, seconds: float) -> None:
        self._check(seconds)
        await _wait(self._over, seconds)
        self._check()

    def _check(self, wait: float = 0.0) -> None:
        if self.sent >= self._policy.requests:
            self.end(f"limit of {self._policy.requests} requests")
        if time.monotonic() + wait > self._deadline:
            self.end(f"limit of {self._policy.crawl_min:g} minutes")
        if self.ended:
            raise NotAskedError(self.refusal)
