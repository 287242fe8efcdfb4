"""The one place where requests leave for the site and answers come in."""

import socket
from contextvars import ContextVar

import aiohttp
from scrapy import Request
from scrapy.core.downloader.handlers._aiohttp import (
    AiohttpDownloadHandler,
    _ClientResponse,
)
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.exceptions import (
    DownloadConnectionRefusedError,
    IgnoreRequest,
    ResponseDataLossError,
)
from scrapy.http import Response

from toolbank.sources.sphinx.web.refusals import Refused
from toolbank.sources.sphinx.web.throttle import Throttle
from toolbank.system.addresses import is_public_ip

# The private addresses that the request at hand was kept from.
_refused_addresses: ContextVar[list[str]] = ContextVar("_refused_addresses")


class DownloadHandler(AiohttpDownloadHandler):
    """Scrapy's aiohttp handler, which waits for a request's turn, guards addresses and unpacks.

    The guard looks at the very address that a socket is about to be connected to, so that a name
    that resolves to another one the next time does not get around it.
    """

    lazy = True

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        throttle = crawler.get_downloader_middleware(Throttle)
        if throttle is None:
            raise AssertionError("the settings of a crawl have a throttle")
        self._throttle = throttle
        self._compression = HttpCompressionMiddleware(crawler=crawler)
        if crawler.settings.getbool("GUARD_ADDRESSES"):
            # Scrapy has no setting for it, and makes its session by itself: the same, but guarded.
            self._session.detach()
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=crawler.settings.getint("CONCURRENT_REQUESTS"),
                    socket_factory=_open_socket,
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                response_class=_ClientResponse,
                skip_auto_headers=(
                    "Accept",
                    "Accept-Encoding",
                    "Content-Type",
                    "User-Agent",
                ),
            )

    async def download_request(self, request: Request) -> Response:
        """Send a request when its turn comes; the answer comes unpacked.

        Raises:
            Refused: the site is at a private address, can't prove who it is, or its answer is
                too large or in an unknown encoding.
            NotAsked: the crawl ended before.
        """
        await self._throttle.admit()
        self._compression.process_request(request)
        refused: list[str] = []
        _refused_addresses.set(refused)
        try:
            response = await self._throttle.carry(super().download_request(request))
        except DownloadConnectionRefusedError as error:
            if refused:
                raise Refused(
                    f"at a private address, {refused[0]}; if that is meant, "
                    "--private-addresses, or crawl.private_addresses in a recipe, lets it in"
                ) from error
            if isinstance(error.__cause__, aiohttp.ClientSSLError):
                raise Refused("its certificate can't be trusted") from error
            raise
        self._throttle.note(response)
        return self._unpack(request, response)

    def _unpack(self, request: Request, response: Response) -> Response:
        # What may be sent at any length, robots.txt, may not be unpacked to any.
        request = request.replace(meta={}) if "is_robots" in request.meta else request
        try:
            unpacked = self._compression.process_response(request, response)
        except IgnoreRequest as error:
            raise Refused("too large when unpacked") from error
        except Exception as error:  # each encoding's library has its own
            raise ResponseDataLossError("can't be unpacked") from error
        packed = unpacked.headers.get("Content-Encoding") or b""
        if not isinstance(unpacked, Response) or packed.lower() not in (
            b"",
            b"identity",
        ):
            raise Refused("packed in an unknown way")
        return unpacked


def _open_socket(info: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, _, address = info
    if not is_public_ip(str(address[0])):
        _refused_addresses.get().append(str(address[0]))
        raise PermissionError(f"{address[0]} is no public address")
    return socket.socket(family=family, type=kind, proto=protocol)
