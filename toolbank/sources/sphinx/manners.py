"""How the crawler behaves on a site: it stays there, and waits before it tries again."""

import asyncio
from typing import Any
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.utils.httpobj import urlparse_cached

from toolbank import __version__
from toolbank.addresses import is_private
from toolbank.sources.conduct import Conduct

_MAX_WAIT_S = 60.0
_MAX_BYTES = 16 * 1024 * 1024
_PACKAGE = "toolbank.sources.sphinx"


class OwnSiteOnly:
    """Refuses requests, redirects among them, to another host, port or scheme."""

    def __init__(self, base_url: str) -> None:
        self._site = urlsplit(base_url)[:2]

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "OwnSiteOnly":
        """Scrapy's constructor."""
        return cls(crawler.settings["SITE_BASE_URL"])

    def process_request(self, request: Request) -> None:
        """Let a request of the site through."""
        address = urlparse_cached(request)
        if (address.scheme, address.netloc) != self._site:
            raise IgnoreRequest(f"leads to another site, {request.url}")


class WaitBeforeRetry:
    """Waits twice as long before each further try, or as long as Retry-After says."""

    def __init__(self, first_wait_s: float) -> None:
        self._first_wait_s = first_wait_s

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "WaitBeforeRetry":
        """Scrapy's constructor."""
        return cls(crawler.settings.getfloat("RETRY_FIRST_WAIT_S"))

    async def process_request(self, request: Request) -> None:
        """Wait if the request was tried before."""
        tries = request.meta.get("retry_times", 0)
        if tries:
            wait = self._first_wait_s * 2 ** (tries - 1)
            wait = max(wait, request.meta.pop("retry_after_s", 0.0))
            await asyncio.sleep(min(wait, _MAX_WAIT_S))

    def process_response(self, request: Request, response: Response) -> Response:
        """Note what the site says of when to come back, in seconds."""
        after = response.headers.get("Retry-After") or b""
        if response.status in (429, 503) and after.strip().isdigit():
            request.meta["retry_after_s"] = float(after)
        return response


def user_agent(contact: str) -> str:
    """What the crawler calls itself."""
    return f"toolbank/{__version__}" + (f" (+{contact})" if contact else "")


def crawl_settings(
    base_url: str, cache: str, conduct: Conduct | None = None
) -> dict[str, Any]:
    """Scrapy's settings for a site: full speed on loopback and private addresses, else gentle."""
    conduct = conduct or Conduct()
    is_near = is_private(base_url)
    pace: dict[str, Any] = (
        {"CONCURRENT_REQUESTS_PER_DOMAIN": 8, "RETRY_FIRST_WAIT_S": 0.2}
        if is_near
        else {
            "CONCURRENT_REQUESTS_PER_DOMAIN": 2,
            "DOWNLOAD_DELAY": 0.25,
            "AUTOTHROTTLE_ENABLED": True,
            "AUTOTHROTTLE_START_DELAY": 0.5,
            "AUTOTHROTTLE_TARGET_CONCURRENCY": 2.0,
            "RETRY_FIRST_WAIT_S": 2.0,
        }
    )
    return {
        "TWISTED_REACTOR_ENABLED": False,
        "TELNETCONSOLE_ENABLED": False,
        "REMOTE_CONTROL_ENABLED": False,
        "COOKIES_ENABLED": False,
        "REFERER_ENABLED": False,
        "USER_AGENT": user_agent(conduct.contact),
        "ROBOTSTXT_OBEY": True,
        "DOWNLOAD_MAXSIZE": _MAX_BYTES,
        "DOWNLOAD_WARNSIZE": 0,
        "DOWNLOAD_TIMEOUT": 30,
        "REDIRECT_MAX_TIMES": 5,
        "HTTPERROR_ALLOW_ALL": True,
        "METAREFRESH_ENABLED": False,
        "RETRY_TIMES": 2,
        "HTTPCACHE_ENABLED": True,
        "HTTPCACHE_DIR": cache,
        "HTTPCACHE_STORAGE": f"{_PACKAGE}.cache.AtomicCacheStorage",
        "HTTPCACHE_POLICY": f"{_PACKAGE}.cache.KeepGood",
        "DOWNLOADER_MIDDLEWARES": {
            f"{_PACKAGE}.manners.OwnSiteOnly": 10,
            f"{_PACKAGE}.manners.WaitBeforeRetry": 560,
        },
        "SITE_BASE_URL": base_url,
        **pace,
    }
