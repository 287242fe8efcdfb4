"""The pages of one site: by its rules, from the cache where they are fresh, or asked for."""

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from urllib.parse import urljoin, urlsplit

from toolbank.sources.web.answer import GONE, MOVED, Answer
from toolbank.sources.web.cache import Kept, PageCache
from toolbank.sources.web.crawl_policy import CrawlPolicy
from toolbank.sources.web.download import Downloader
from toolbank.sources.web.failures import (
    BrokenOffError,
    EndlessError,
    ForbiddenError,
    NotAskedError,
    RefusedError,
    RequestError,
    UnansweredError,
    may_pass_status,
)
from toolbank.sources.web.robots import MAX_ROBOTS_BYTES, Robots, read_robots
from toolbank.sources.web.throttle import Throttle
from toolbank.system.net import origin

_MAX_REDIRECTS = 5
_CONDITIONS = {"etag": "If-None-Match", "last-modified": "If-Modified-Since"}


@dataclass(frozen=True)
class Wanted:
    """What a request is for: which answers are kept, besides that a page has moved.

    Stubs, pages with nothing but a meta refresh, are followed once where `follows_stubs`. What is
    kept is asked for again after `max_age_s` at the latest. An answer is cut at `cut_at` bytes.
    """

    keeps: Callable[[Answer], bool]
    follows_stubs: bool = False
    asks_robots: bool = True
    max_age_s: float = math.inf
    cut_at: int | None = None


def _keeps_page(answer: Answer) -> bool:
    return answer.is_html if answer.status == 200 else answer.status in GONE


def _keeps_robots(answer: Answer) -> bool:
    is_refusal = 400 <= answer.status < 500 and not may_pass_status(answer.status)
    return answer.status == 200 or is_refusal


PAGE = Wanted(_keeps_page, follows_stubs=True)
_ROBOTS = Wanted(
    _keeps_robots,
    asks_robots=False,
    max_age_s=24 * 3600,  # RFC 9309, section 2.4
    cut_at=MAX_ROBOTS_BYTES,
)


class SiteClient:
    """Gets pages of one site, and none of another.

    It asks for nothing that robots.txt forbids, nor faster than its Crawl-delay. A site without
    the file allows everything; one whose server can't give it, nothing for now. Nor does one
    whose file leads to another site or lies behind what is refused. RFC 9309 2.3.1.2 would let
    a crawler follow, but then the site decides which hosts are asked, and what it allows is not
    known where they are not.

    A fresh answer of the cache serves without a request, a stale one once the site said that it
    still holds (status 304), or where the site can't be asked. What this crawl has asked once
    counts as fresh.
    """

    def __init__(
        self,
        base_url: str,
        policy: CrawlPolicy,
        cache: PageCache,
        throttle: Throttle,
        downloader: Downloader,
    ) -> None:
        self._site = origin(base_url)
        self._policy = policy
        self._cache = cache
        self._throttle = throttle
        self._downloader = downloader
        self._started = time.time()
        self._reading_robots: asyncio.Future[Robots] | None = None

    async def get(self, url: str, wanted: Wanted) -> Answer:
        """The answer for a URL, redirects followed; its `url` is that of the page they led to.

        Raises:
            RequestError: there is none.
            ToolbankError: the cache can't be written to.
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
        """Whether there is an answer to serve, however old."""
        return self._cache.has(url)

    async def _get_one(self, url: str, wanted: Wanted) -> Answer:
        if not self._is_own(url):
            raise RefusedError(f"leads to another site, {url}")
        if wanted.asks_robots:
            await self._check_allowed(url)
        kept = self._cache.read(url)
        if kept is None:
            return await self._ask(url, wanted)
        if self._is_fresh(kept, wanted):
            return kept.answer
        try:
            answer = await self._ask(url, wanted, kept.answer)
        except RequestError as error:
            if not error.may_pass:
                raise
            return replace(kept.answer, origin="stale")
        if answer.status == 304:
            self._cache.renew(url)
            return kept.answer
        if may_pass_status(answer.status):
            return replace(kept.answer, origin="stale")
        return answer

    async def _ask(
        self, url: str, wanted: Wanted, kept: Answer | None = None
    ) -> Answer:
        """Ask for a page, again where that may help and none is kept; keep a good answer."""
        headers = {
            condition: kept.headers[validator]
            for validator, condition in _CONDITIONS.items()
            if kept is not None and validator in kept.headers
        }
        if wanted.cut_at is not None:
            # What comes unpacked can be cut where enough of it is there.
            headers["Accept-Encoding"] = "identity"
        retries = 0 if kept is not None else self._policy.retries
        for tries in range(retries + 1):
            await self._throttle.admit(tries)
            try:
                answer, latency = await self._downloader.send(
                    url, headers, wanted.cut_at
                )
            except (UnansweredError, BrokenOffError) as error:
                self._throttle.note_failure(error)
                if tries == retries:
                    raise
                continue
            self._throttle.note(answer, latency)
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

    def _is_fresh(self, kept: Kept, wanted: Wanted) -> bool:
        now = time.time()
        max_age_s = min(self._policy.max_age_h * 3600, wanted.max_age_s)
        # A time that lies ahead says nothing, as after a clock was set back.
        return kept.checked <= now + 60 and (
            kept.checked >= self._started or now - kept.checked < max_age_s
        )

    async def _check_allowed(self, url: str) -> None:
        if self._reading_robots is None:
            self._reading_robots = asyncio.ensure_future(self._read_robots(url))
        robots = await asyncio.shield(self._reading_robots)
        if not robots.allows(url):
            raise ForbiddenError("forbidden by robots.txt")

    async def _read_robots(self, url: str) -> Robots:
        try:
            answer = await self.get(urljoin(url, "/robots.txt"), _ROBOTS)
        except EndlessError:
            return Robots()
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
        robots = read_robots(answer)
        self._throttle.keep_interval(robots.delay_s)
        return robots
