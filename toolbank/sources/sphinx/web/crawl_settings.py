"""How the crawler behaves on a site: it stays there, and asks gently."""

from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from scrapy import Request
from scrapy.crawler import Crawler

from toolbank.sources.sphinx.crawl_policy import CrawlPolicy
from toolbank.sources.sphinx.web.refusals import Refused
from toolbank.system.addresses import is_loopback, is_private, origin
from toolbank.system.version import __version__

_PACKAGE = "toolbank.sources.sphinx.web"
_MB = 1024 * 1024
_MAX_REDIRECTS = 5


class OwnSiteOnly:
    """Refuses requests, redirects among them, to another host, port or scheme."""

    def __init__(self, base_url: str) -> None:
        self._site = origin(base_url)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "OwnSiteOnly":
        """Scrapy's constructor."""
        return cls(crawler.settings["SITE_BASE_URL"])

    def process_request(self, request: Request) -> None:
        """Let a request of the site through.

        Raises:
            Refused: it leads elsewhere.
        """
        if not self.is_own(request.url):
            raise Refused(f"leads to another site, {request.url}")

    def is_own(self, url: str) -> bool:
        """Whether a URL is one of the site, with no name or password in it."""
        try:
            return origin(url) == self._site and "@" not in urlsplit(url).netloc
        except ValueError:
            return False


def user_agent(contact: str) -> str:
    """What the crawler calls itself."""
    return f"toolbank/{__version__}" + (f" (+{contact})" if contact else "")


def crawl_settings(base_url: str, cache: str, policy: CrawlPolicy) -> dict[str, Any]:
    """Scrapy's settings for a site: gentle, but at full speed on a private one.

    A site must prove who it is by its certificate, but for one on this very machine.
    A proxy that the environment names is used, and then it is the proxy that looks names up:
    private addresses behind a public name are its matter.
    """
    is_near = is_private(base_url)
    concurrency = policy.concurrency or (8 if is_near else 2)
    delay_s = policy.delay_s
    if delay_s is None:
        delay_s = 0.0 if is_near else 0.25
    handler = f"{_PACKAGE}.download_handler.DownloadHandler"
    return {
        "TWISTED_REACTOR_ENABLED": False,
        "TELNETCONSOLE_ENABLED": False,
        "REMOTE_CONTROL_ENABLED": False,
        "LOG_ENABLED": False,
        "WARN_ON_GENERATOR_RETURN_VALUE": False,
        # As many tasks are made for each answer, though none gives an item.
        "CONCURRENT_ITEMS": 1,
        "USER_AGENT": user_agent(policy.contact),
        "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
        "CONCURRENT_REQUESTS": concurrency,
        "CONCURRENT_REQUESTS_PER_DOMAIN": concurrency,
        "DOWNLOAD_DELAY": delay_s,
        "AUTOTHROTTLE_ENABLED": not is_near,
        "AUTOTHROTTLE_START_DELAY": max(0.5, delay_s),
        "AUTOTHROTTLE_TARGET_CONCURRENCY": float(concurrency),
        "DOWNLOAD_HANDLERS": {"http": handler, "https": handler},
        "DOWNLOAD_MAXSIZE": int(policy.page_mb * _MB),
        "DOWNLOAD_WARNSIZE": 0,
        "DOWNLOAD_TIMEOUT": policy.request_s,
        "DOWNLOAD_VERIFY_CERTIFICATES": not is_loopback(base_url),
        "REDIRECT_MAX_TIMES": _MAX_REDIRECTS,
        "RETRY_TIMES": policy.retries,
        "RETRY_FIRST_WAIT_S": 0.2 if is_near else 2.0,
        "DOWNLOADER_MIDDLEWARES": {
            f"{_PACKAGE}.crawl_settings.OwnSiteOnly": 10,
            f"{_PACKAGE}.robots.ObeyRobots": 100,
            f"{_PACKAGE}.meta_refresh.FollowMetaRefresh": 580,
            f"{_PACKAGE}.cache_middleware.CacheMiddleware": 900,
            f"{_PACKAGE}.throttle.Throttle": 950,
            **_UNUSED_DOWNLOADER,
        },
        "SPIDER_MIDDLEWARES": _UNUSED_SPIDER,
        "EXTENSIONS": _UNUSED_EXTENSIONS,
        "SITE_BASE_URL": base_url,
        "PAGE_CACHE": cache,
        "CRAWL_POLICY": policy,
        "GUARD_ADDRESSES": not (
            is_near or policy.private_addresses or _has_proxy(base_url)
        ),
    }


def _has_proxy(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme in getproxies() and not proxy_bypass(parts.hostname or "")


def _off(package: str, *names: str) -> dict[str, None]:
    return {f"scrapy.{package}.{name}": None for name in names}


# What a crawl of one site for its pages has no use for, or does by itself; it costs time.
_UNUSED_DOWNLOADER = _off(
    "downloadermiddlewares",
    "offsite.OffsiteMiddleware",
    "robotstxt.RobotsTxtMiddleware",
    "httpauth.HttpAuthMiddleware",
    "redirect.MetaRefreshMiddleware",
    "httpcompression.HttpCompressionMiddleware",
    "cookies.CookiesMiddleware",
    "stats.DownloaderStats",
    "httpcache.HttpCacheMiddleware",
)
_UNUSED_SPIDER = _off(
    "spidermiddlewares",
    "httperror.HttpErrorMiddleware",
    "referer.RefererMiddleware",
    "urllength.UrlLengthMiddleware",
    "depth.DepthMiddleware",
    "metacopy.MetaCopyDetectionMiddleware",
)
_UNUSED_EXTENSIONS = _off(
    "extensions",
    "corestats.CoreStats",
    "logcount.LogCount",
    "telnet.TelnetConsole",
    "memusage.MemoryUsage",
    "memdebug.MemoryDebugger",
    "closespider.CloseSpider",
    "feedexport.FeedExporter",
    "logstats.LogStats",
    "spiderstate.SpiderState",
    "remote_control.RemoteControl",
)
