"""robots.txt: what the site asks of crawlers."""

import asyncio
from urllib.parse import urljoin

from protego import Protego
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http.request import NO_CALLBACK

from toolbank.errors import ToolbankError
from toolbank.sources.sphinx.web.pace import Pace
from toolbank.sources.sphinx.web.refusals import (
    NotAsked,
    Refused,
    may_pass_status,
    reason_of,
)

_AGENT = "toolbank"
_MAX_BYTES = 512 * 1024


class ObeyRobots:
    """Asks for nothing that robots.txt forbids, nor faster than its Crawl-delay (RFC 9309).

    A site without the file allows everything; one whose server can't give it, nothing for now.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._reading: asyncio.Future[Protego] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "ObeyRobots":
        """Scrapy's constructor."""
        return cls(crawler)

    async def process_request(self, request: Request) -> None:
        """Let an allowed request through.

        Raises:
            Refused: it is forbidden.
            NotAsked: the rules can't be had now.
        """
        if request.meta.get("is_robots"):
            return
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._read(request))
        rules = await asyncio.shield(self._reading)
        if not rules.can_fetch(request.url, _AGENT):
            raise Refused("forbidden by robots.txt")

    async def _read(self, first: Request) -> Protego:
        engine = self._crawler.engine
        pace = self._crawler.get_downloader_middleware(Pace)
        if engine is None or pace is None:
            raise AssertionError("requests are made by a running engine, with a pace")
        asking = Request(
            urljoin(first.url, "/robots.txt"),
            callback=NO_CALLBACK,
            meta={"is_robots": True},
            dont_filter=True,
        )
        try:
            response = await engine.download_async(asking)
        except (NotAsked, ToolbankError):
            raise
        except IgnoreRequest:
            return Protego.parse("")
        except Exception as error:
            raise NotAsked(f"robots.txt can't be read: {reason_of(error)}") from error
        if may_pass_status(response.status):
            raise NotAsked(f"robots.txt can't be read: HTTP status {response.status}")
        if response.status != 200:
            return Protego.parse("")
        text = response.body[:_MAX_BYTES].decode("utf-8-sig", errors="replace")
        rules = Protego.parse(text)
        pace.keep_interval(rules.crawl_delay(_AGENT) or 0.0)
        return rules
