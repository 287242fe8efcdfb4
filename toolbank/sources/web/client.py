"""Fetch the pages of one site by its robots.txt, from the cache while they are fresh."""

import asyncio
import base64
import hashlib
import json
import math
import os
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from protego import Protego

from toolbank.sources.web.answer import (
    GONE,
    MOVED,
    BrokenOffError,
    EndlessError,
    ForbiddenError,
    NotAskedError,
    RefusedError,
    RequestError,
    UnansweredError,
    WebResponse,
    may_pass_status,
)
from toolbank.sources.web.download import Downloader, Throttle
from toolbank.sources.web.policy import CrawlPolicy, CrawlSettings
from toolbank.system.files import write_error
from toolbank.system.net import origin

# The minimum that RFC 9309 2.5 requires.
MAX_ROBOTS_BYTES = 500 * 1024
_AGENT = "toolbank"


def _parse_robots(answer: WebResponse) -> Protego:
    """The rules of a robots.txt (RFC 9309); a missing one allows everything."""
    body = answer.body[:MAX_ROBOTS_BYTES] if answer.status == 200 else b""
    if len(body) < len(answer.body):
        # A truncated rule would mean something else.
        body = body.rpartition(b"\n")[0]
    return Protego.parse(body.decode("utf-8-sig", errors="replace"))


_KEPT_HEADERS = ("Content-Type", "ETag", "Last-Modified", "Location")
# The fastest level.
_LEVEL = 1


class PageCache:
    """A cache with one file per response: a line of JSON, then the body packed by zlib.

    A file's modification time is that of the last validation. Damaged files, and those whose body
    is larger than `max_bytes`, count as missing.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes

    def read(self, url: str) -> tuple[WebResponse, float] | None:
        """Return the cached response of a URL, and when it was validated (seconds since 1970)."""
        path = self._path(url)
        try:
            with path.open("rb") as file:
                checked = os.fstat(file.fileno()).st_mtime
                head, _, packed = file.read().partition(b"\n")
            kept: dict[str, Any] = json.loads(head)
            if kept["url"] != url or kept["length"] != len(packed):
                return None
            headers = {
                name.lower(): base64.b64decode(value).decode("utf-8", "surrogateescape")
                for name, value in kept["headers"]
            }
            status = int(kept["status"])
            unpacker = zlib.decompressobj()
            body = unpacker.decompress(packed, self._max_bytes)
            if not unpacker.eof:
                return None
        except (OSError, ValueError, KeyError, TypeError, zlib.error):
            return None
        return WebResponse(url, status, headers, body, "cached"), checked

    def has(self, url: str) -> bool:
        """Whether there is a file for a URL, even a damaged one."""
        return self._path(url).exists()

    def write(self, answer: WebResponse) -> None:
        """Store a response.

        Raises:
            ToolbankError: the folder can't be written, or the disk is full.
        """
        packed = zlib.compress(answer.body, _LEVEL)
        head = {
            "url": answer.url,
            "status": answer.status,
            "length": len(packed),
            "headers": [
                (
                    name,
                    base64.b64encode(text.encode("utf-8", "surrogateescape")).decode(),
                )
                for name in _KEPT_HEADERS
                if (text := answer.headers.get(name.lower())) is not None
            ],
        }
        path = self._path(answer.url)
        try:
            _replace(path, json.dumps(head).encode() + b"\n" + packed)
        except OSError as error:
            raise write_error(path, error) from error

    def renew(self, url: str) -> None:
        """Note that the site has just confirmed a response."""
        now = time.time()
        # If the file is gone, the page is requested again the next time.
        try:
            os.utime(self._path(url), (now, now))
        except OSError:
            return

    def _path(self, url: str) -> Path:
        key = hashlib.sha256(url.encode()).hexdigest()
        return self._folder / key[:2] / key


def _replace(path: Path, data: bytes) -> None:
    """Replace a file, dated now.

    There is no fsync, which would cost more than all the rest: a file that a power cut truncates
    does not unpack and counts as missing.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    now = time.time()
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        temporary.write_bytes(data)
        os.utime(temporary, (now, now))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


_MAX_REDIRECTS = 5
_CONDITIONS = {"etag": "If-None-Match", "last-modified": "If-Modified-Since"}


@dataclass(frozen=True)
class FetchPurpose:
    """The purpose of a request: which responses are cached, in addition to redirects.

    With `follows_stubs`, pages with only a meta refresh are followed once. Cached responses are
    revalidated after `max_age_s` at the latest. A response is cut at `cut_at` bytes.
    """

    keeps: Callable[[WebResponse], bool]
    follows_stubs: bool = False
    asks_robots: bool = True
    max_age_s: float = math.inf
    cut_at: int | None = None


def _keeps_page(answer: WebResponse) -> bool:
    return answer.is_html if answer.status == 200 else answer.status in GONE


def _keeps_robots(answer: WebResponse) -> bool:
    is_refusal = 400 <= answer.status < 500 and not may_pass_status(answer.status)
    return answer.status == 200 or is_refusal


PAGE = FetchPurpose(_keeps_page, follows_stubs=True)
_ROBOTS = FetchPurpose(
    _keeps_robots,
    asks_robots=False,
    max_age_s=24 * 3600,  # RFC 9309, section 2.4
    cut_at=MAX_ROBOTS_BYTES,
)


class SiteClient:
    """Gets pages of one site, and of no other.

    It obeys robots.txt and its Crawl-delay. A site without the file allows everything. A site
    allows nothing while its server fails to send the file, or if the file redirects to another
    site or can't be read. RFC 9309 2.3.1.2 lets a crawler follow such a redirect, but then the
    site would decide which hosts are asked.

    A fresh response of the cache is used without a request. A stale one is used after the site
    confirmed it (status 304), or if the site can't be reached. Responses that this crawl requested
    are fresh.
    """

    def __init__(self, base_url: str, policy: CrawlPolicy, cache: Path) -> None:
        settings = CrawlSettings(base_url, policy)
        self.concurrency = settings.concurrency
        self.throttle = Throttle(settings)
        self._site = origin(base_url)
        self._policy = policy
        self._cache = PageCache(cache.resolve(), settings.max_bytes)
        self._downloader = Downloader(settings)
        self._started = time.time()
        self._reading_robots: asyncio.Future[Protego] | None = None

    async def aclose(self) -> None:
        """Close the connections."""
        await self._downloader.aclose()

    async def get(self, url: str, wanted: FetchPurpose) -> WebResponse:
        """Return the response of a URL after redirects; its `url` is that of the last page.

        Raises:
            RequestError: the request failed.
            ToolbankError: the cache can't be written.
        """
        asked = [url]
        is_of_stub = False
        try:
            while True:
                answer = await self._get_one(asked[-1], wanted)
                if target := answer.moved_to:
                    if target in asked:
                        raise EndlessError("redirected in a loop").led_to(target)
                    if len(asked) > _MAX_REDIRECTS:
                        raise EndlessError("redirected too often")
                elif wanted.follows_stubs and (target := answer.refreshes_to):
                    if not self._is_own(target):
                        raise RefusedError(
                            f"a stub that leads to another site, {target}"
                        )
                    if is_of_stub:
                        raise RefusedError(f"a stub that leads to a stub, {answer.url}")
                    is_of_stub = True
                else:
                    return answer
                asked.append(target)
        except RequestError as error:
            if len(asked) == 1:
                raise
            raise error.led_to(asked[-1]) from error

    def has_kept(self, url: str) -> bool:
        """Whether the cache has a response, however old."""
        return self._cache.has(url)

    async def _get_one(self, url: str, wanted: FetchPurpose) -> WebResponse:
        if not self._is_own(url):
            raise RefusedError(f"leads to another site, {url}")
        if wanted.asks_robots:
            await self._check_allowed(url)
        cached = self._cache.read(url)
        if cached is None:
            return await self._ask(url, wanted)
        kept, checked = cached
        if self._is_fresh(checked, wanted):
            return kept
        try:
            answer = await self._ask(url, wanted, kept)
        except RequestError as error:
            if not error.may_pass:
                raise
            return replace(kept, origin="stale")
        if answer.status == 304:
            self._cache.renew(url)
            return kept
        if may_pass_status(answer.status):
            return replace(kept, origin="stale")
        return answer

    async def _ask(
        self, url: str, wanted: FetchPurpose, kept: WebResponse | None = None
    ) -> WebResponse:
        """Request a page, with retries if none is cached, and cache a good response."""
        headers = {
            condition: kept.headers[validator]
            for validator, condition in _CONDITIONS.items()
            if kept is not None and validator in kept.headers
        }
        if wanted.cut_at is not None:
            # Only an unpacked response can be cut.
            headers["Accept-Encoding"] = "identity"
        retries = 0 if kept is not None else self._policy.retries
        for tries in range(retries + 1):
            await self.throttle.admit(tries)
            try:
                answer, latency = await self._downloader.send(
                    url, headers, wanted.cut_at
                )
            except (UnansweredError, BrokenOffError) as error:
                self.throttle.note_failure(error)
                if tries == retries:
                    raise
                continue
            self.throttle.note(answer, latency)
            if not may_pass_status(answer.status):
                break
        if answer.status in MOVED or wanted.keeps(answer):
            self._cache.write(answer)
        return answer

    def _is_own(self, url: str) -> bool:
        """Whether a URL is one of the site, with no name or password in it."""
        try:
            return origin(url) == self._site and "@" not in urlsplit(url).netloc
        except ValueError:
            return False

    def _is_fresh(self, checked: float, wanted: FetchPurpose) -> bool:
        now = time.time()
        max_age_s = min(self._policy.max_age_h * 3600, wanted.max_age_s)
        # A time that lies ahead says nothing, as after a clock was set back.
        return checked <= now + 60 and (
            checked >= self._started or now - checked < max_age_s
        )

    async def _check_allowed(self, url: str) -> None:
        if self._reading_robots is None:
            self._reading_robots = asyncio.ensure_future(self._read_robots(url))
        robots = await asyncio.shield(self._reading_robots)
        if not robots.can_fetch(url, _AGENT):
            raise ForbiddenError("forbidden by robots.txt")

    async def _read_robots(self, url: str) -> Protego:
        try:
            answer = await self.get(urljoin(url, "/robots.txt"), _ROBOTS)
        except EndlessError:
            return Protego.parse("")
        except RefusedError as error:
            raise RefusedError(f"robots.txt can't be read: {error}") from error
        except NotAskedError:
            raise
        except RequestError as error:
            raise NotAskedError(f"robots.txt can't be read: {error}") from error
        if may_pass_status(answer.status):
            raise NotAskedError(
                f"robots.txt can't be read: HTTP status {answer.status}"
            )
        robots = _parse_robots(answer)
        self.throttle.keep_interval(float(robots.crawl_delay(_AGENT) or 0))
        return robots
