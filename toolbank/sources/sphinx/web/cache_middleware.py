"""Which answers are kept, and for how long they serve without asking the site."""

import time
from pathlib import Path

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response

from toolbank.sources.sphinx.crawl_policy import CrawlPolicy
from toolbank.sources.sphinx.web.cache import Kept, PageCache
from toolbank.sources.sphinx.web.refusals import may_pass, may_pass_status

_MOVED = frozenset({301, 302, 303, 307, 308})
GONE = frozenset({404, 410})
_ROBOTS_MAX_AGE_S = 24 * 3600  # RFC 9309, section 2.4
_CONDITIONS = {"ETag": "If-None-Match", "Last-Modified": "If-Modified-Since"}


class CacheMiddleware:
    """Answers requests from the cache.

    A fresh answer serves without a request, a stale one once the site said that it still holds
    (status 304), or where the site can't be asked: its flags are "cached", and then "stale". What
    this crawl has asked once counts as fresh.
    """

    def __init__(self, cache: PageCache, policy: CrawlPolicy) -> None:
        self._cache = cache
        self._started = time.time()
        self._max_age_s = policy.max_age_h * 3600

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "CacheMiddleware":
        """Scrapy's constructor."""
        settings = crawler.settings
        cache = PageCache(
            Path(settings["PAGE_CACHE"]), settings.getint("DOWNLOAD_MAXSIZE")
        )
        return cls(cache, settings["CRAWL_POLICY"])

    def process_request(self, request: Request) -> Response | None:
        """The kept answer, or conditions on which the site may say that it still holds."""
        for condition in _CONDITIONS.values():
            request.headers.pop(condition, None)
        kept = self._cache.read(request.url)
        if kept is None:
            return None
        if self._is_fresh(kept, request):
            return _flagged(kept.response)
        for validator, condition in _CONDITIONS.items():
            if value := kept.response.headers.get(validator):
                request.headers[condition] = value
        request.meta["kept"] = kept.response
        return None

    def process_response(self, request: Request, response: Response) -> Response:
        """Keep a good answer, or serve the one that was kept.

        Raises:
            ToolbankError: the cache can't be written to.
        """
        kept: Response | None = request.meta.pop("kept", None)
        if "cached" in response.flags:
            return response
        if kept is not None and response.status == 304:
            self._cache.renew(request.url)
            return _flagged(kept)
        if kept is not None and may_pass_status(response.status):
            return _flagged(kept, "stale")
        if _is_kept(request, response):
            self._cache.write(request.url, response)
        return response

    def process_exception(
        self, request: Request, exception: Exception
    ) -> Response | None:
        """Serve what was kept where the site is away."""
        kept: Response | None = request.meta.pop("kept", None)
        if kept is None or not may_pass(exception):
            return None
        return _flagged(kept, "stale")

    def has_kept(self, url: str) -> bool:
        """Whether there is an answer to serve, however old."""
        return self._cache.has(url)

    def _is_fresh(self, kept: Kept, request: Request) -> bool:
        now = time.time()
        max_age_s = self._max_age_s
        if "is_robots" in request.meta:
            max_age_s = min(max_age_s, _ROBOTS_MAX_AGE_S)
        # A time that lies ahead says nothing, as after a clock was set back.
        return kept.checked <= now + 60 and (
            kept.checked >= self._started or now - kept.checked < max_age_s
        )


def is_html(response: Response) -> bool:
    """Whether a response is sent as HTML; one that says nothing is taken for it."""
    return content_type(response) in ("", "text/html", "application/xhtml+xml")


def content_type(response: Response) -> str:
    """What a response is sent as, such as text/html; "" where it does not say."""
    sent_as = response.headers.get("Content-Type") or b""
    return sent_as.partition(b";")[0].strip().lower().decode("latin-1")


def _is_kept(request: Request, response: Response) -> bool:
    """Pages that are there, have moved or are gone are kept; what may be an accident is not."""
    if response.status == 200 and request.meta.get("keep_if_html"):
        return is_html(response)
    if response.status == 200:
        return response.body.startswith(request.meta.get("keep_if_begins", b""))
    if request.meta.get("is_robots") and 400 <= response.status < 500:
        return not may_pass_status(response.status)
    if response.status in GONE:
        return request.meta.get("keep_if_gone", True) is True
    return response.status in _MOVED


def _flagged(response: Response, *how: str) -> Response:
    response.flags = ["cached", *how]
    return response
