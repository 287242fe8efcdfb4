"""The one place where requests leave for the site and answers come in."""

import socket
import time
from collections.abc import Mapping
from contextvars import ContextVar

import aiohttp

from toolbank.sources.web.answer import Answer
from toolbank.sources.web.crawl_settings import CrawlSettings
from toolbank.sources.web.failures import BrokenOffError, RefusedError, UnansweredError
from toolbank.system.net import is_public_ip

_UNPACKED = frozenset({"gzip", "x-gzip", "deflate"})
_HEADERS = {
    "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "Accept-Encoding": "gzip, deflate",
    "Accept-Language": "en",
}
# The private addresses that the request at hand was kept from.
_refused_addresses: ContextVar[list[str]] = ContextVar("_refused_addresses")


class Downloader:
    """Sends single requests, guards addresses, and reads no more than a page may have.

    The guard looks at the very address that a socket is about to be connected to, so that a name
    that resolves to another one the next time does not get around it.
    """

    def __init__(self, settings: CrawlSettings) -> None:
        self._settings = settings
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=settings.concurrency,
                ssl=settings.verifies,
                socket_factory=_open_guarded if settings.guards else None,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={**_HEADERS, "User-Agent": settings.user_agent},
            timeout=aiohttp.ClientTimeout(total=settings.policy.request_s),
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def send(
        self, url: str, headers: Mapping[str, str], cut_at: int | None = None
    ) -> tuple[Answer, float]:
        """Ask for a page: the answer, and the seconds until its headers came.

        What is longer than `cut_at` bytes is cut there, unless it comes packed.

        Raises:
            RefusedError: the site is at a private address, can't prove who it is, or its answer is
                too large or packed in an unknown way.
            UnansweredError: it could not be reached, or was too late.
            BrokenOffError: the answer was.
        """
        refused: list[str] = []
        _refused_addresses.set(refused)
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
        except TimeoutError as error:
            raise UnansweredError("timed out") from error
        except aiohttp.InvalidURL as error:
            raise UnansweredError("no address that can be asked") from error
        except aiohttp.ClientConnectorDNSError as error:
            raise UnansweredError("host not found") from error
        except aiohttp.ClientSSLError as error:
            raise RefusedError("its certificate can't be trusted") from error
        except aiohttp.ClientConnectorError as error:
            if refused:
                raise RefusedError(
                    f"at a private address, {refused[0]}; if that is meant, "
                    "--private-addresses, or crawl.private_addresses in a recipe, lets it in"
                ) from error
            raise UnansweredError("connection refused") from error
        except aiohttp.ClientPayloadError as error:
            raise BrokenOffError("broken off") from error
        except (aiohttp.ClientError, OSError) as error:
            raise UnansweredError("connection failed") from error
        given = {name.lower(): value for name, value in response.headers.items()}
        return Answer(url, response.status, given, body), latency

    async def _read(
        self, response: aiohttp.ClientResponse, cut_at: int | None
    ) -> bytes:
        packed = response.headers.get("Content-Encoding", "").strip().lower()
        if packed not in ("", "identity", *_UNPACKED):
            raise RefusedError("packed in an unknown way")
        is_packed = packed in _UNPACKED
        limit = self._settings.max_bytes
        cut_at = None if is_packed else cut_at
        if cut_at is None and (response.content_length or 0) > limit:
            raise RefusedError("too large")
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if cut_at is not None and len(body) > cut_at:
                response.close()
                break
            if cut_at is None and len(body) > limit:
                raise RefusedError(
                    "too large when unpacked" if is_packed else "too large"
                )
        return bytes(body)


def _open_guarded(info: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, _, address = info
    if not is_public_ip(str(address[0])):
        _refused_addresses.get().append(str(address[0]))
        raise PermissionError(f"{address[0]} is no public address")
    return socket.socket(family=family, type=kind, proto=protocol)
