"""robots.txt: what the site asks of crawlers."""

import asyncio
from urllib.parse import urljoin

from protego import Protego
from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest, StopDownload
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK

from toolbank.sources.sphinx.web.refusals import (
    FORBIDDEN,
    NotAsked,
    Refused,
    may_pass_status,
    reason_of,
)
from toolbank.sources.sphinx.web.throttle import Throttle
from toolbank.system.errors import ToolbankError

_AGENT = "toolbank"
# RFC 9309 2.5 has crawlers read at least so much.
_MAX_BYTES = 500 * 1024


class ObeyRobots:
    """Asks for nothing that robots.txt forbids, nor faster than its Crawl-delay (RFC 9309).

    A site without the file allows everything; one whose server can't give it, nothing for now.
    Nor does one whose file leads to another site or lies behind what the crawler refuses. RFC 9309
    2.3.1.2 would let it follow, but then the site decides which hosts are asked, and what it allows
    is not known where they are not.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._reading: asyncio.Future[Protego] | None = None
        self._counted: Request | None = None
        self._received = 0

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
            raise Refused(FORBIDDEN)

    async def _read(self, first: Request) -> Protego:
        engine = self._crawler.engine
        throttle = self._crawler.get_downloader_middleware(Throttle)
        if engine is None or throttle is None:
            raise AssertionError(
                "requests are made by a running engine, with a throttle"
            )
        asking = Request(
            urljoin(first.url, "/robots.txt"),
            # What comes unpacked can be cut where enough of it is there.
            headers={"Accept-Encoding": "identity"},
            callback=NO_CALLBACK,
            meta={"is_robots": True, "download_maxsize": 0},
            dont_filter=True,
        )
        self._crawler.signals.connect(self._count, signals.bytes_received)
        try:
            response = await engine.download_async(asking)
        except (NotAsked, ToolbankError):
            raise
        except Refused as error:
            raise Refused(f"robots.txt can't be read: {error}") from error
        except IgnoreRequest:  # redirected more than five times
            return Protego.parse("")
        except Exception as error:
            raise NotAsked(f"robots.txt can't be read: {reason_of(error)}") from error
        finally:
            self._crawler.signals.disconnect(self._count, signals.bytes_received)
        if may_pass_status(response.status):
            raise NotAsked(f"robots.txt can't be read: HTTP status {response.status}")
        if response.status != 200:
            return Protego.parse("")
        rules = Protego.parse(_text(response))
        throttle.keep_interval(rules.crawl_delay(_AGENT) or 0.0)
        return rules

    def _count(self, data: bytes, request: Request) -> None:
        """End the answer once enough of it is there."""
        if not request.meta.get("is_robots"):
            return
        if request is not self._counted:  # redirected, or tried again
            self._counted, self._received = request, 0
        self._received += len(data)
        if self._received > _MAX_BYTES:
            raise StopDownload(fail=False)


def _text(response: Response) -> str:
    body = response.body[:_MAX_BYTES]
    if len(response.body) > _MAX_BYTES:
        # A rule that is cut off would say something else.
        body = body.rpartition(b"\n")[0]
    return body.decode("utf-8-sig", errors="replace")
