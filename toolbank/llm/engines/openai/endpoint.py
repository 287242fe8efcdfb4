"""Sending a request's bytes to an endpoint, and reading what comes back within bounds."""

from __future__ import annotations

import ssl
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import certifi
from yarl import URL

from toolbank.chat.chat import EngineError
from toolbank.llm.engines.openai.answer import Answer
from toolbank.llm.engines.openai.errors import (
    connection_error,
    packing_error,
    unknown_encoding,
)
from toolbank.llm.engines.openai.open_files import allow_connections
from toolbank.system.errors import InputError
from toolbank.system.net import is_loopback
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.llm.config import EngineConfig
    from toolbank.llm.credentials import Credentials

MAX_REPLY_BYTES = 4 * 2**20
# What is kept of a larger reply, and read of an error.
_MAX_EXCERPT_BYTES = 400_000
# Servers mostly close an idle connection after 5 s; a call must not be sent on one just then.
_LONGEST_IDLE_S = 4.0
_ENCODINGS = frozenset({"gzip", "deflate"})
# zlib's window bits for both, told apart by their first bytes; and for deflate without a head,
# which some servers send.
_WITH_HEAD = 47
_WITHOUT_HEAD = -15


class Endpoint:
    """The chat-completions address under a base URL, reached by aiohttp.

    The OpenAI SDK moves the files of the Batch API, where calls are few. Chat goes without it: a
    bare pool of its calls takes 1.4 to 1.9 times the CPU of a whole generation through here, and
    at 256 in flight reached 69 % of what the endpoint can do where this reached 93 %
    (benchmarks/RESULTS.md). It takes a second to import, reads an error's body whatever its
    length, and sends what the environment says of another endpoint (OPENAI_ORG_ID,
    OPENAI_CUSTOM_HEADERS). Proxies of the environment serve any endpoint but one on this machine.

    Raises:
        InputError: the URL, or a proxy or certificates of the environment, can't be used.
    """

    def __init__(self, config: EngineConfig, credentials: Credentials) -> None:
        self._url = base_url = config.base_url
        self._credentials = credentials
        self._most_in_flight = config.most_in_flight
        self._session: aiohttp.ClientSession | None = None
        try:
            address = _parse(base_url) / "chat" / "completions"
            self._address = address.with_query(config.url_query or None)
            self._proxy = _find_proxy(base_url)
            self._certificates = ssl.create_default_context()
            self._certificates.load_verify_locations(certifi.where())
        except (OSError, ValueError) as error:
            raise InputError(
                f"base_url: {base_url} is no address that can be asked, or the proxy or the "
                f"certificates that the environment names can't be used ({error})."
            ) from error

    async def post(self, body: bytes) -> Answer:
        """Send a JSON body and read the answer, whatever its status; the caller bounds the time.

        Raises:
            EngineError: the connection failed, or the body can't be unpacked.
        """
        session = self._session or self._connect()
        try:
            async with session.post(
                self._address, data=body, allow_redirects=False, proxy=self._proxy
            ) as response:
                return await self._read(response)
        except EngineError:
            raise
        except zlib.error as error:
            raise packing_error(self._url, error) from error
        except Exception as error:
            # Those of aiohttp, and of the system, come through.
            raise connection_error(error, self._url, self._credentials) from error

    async def close(self) -> None:
        """Let go of connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _read(self, response: aiohttp.ClientResponse) -> Answer:
        named = response.headers.get("content-encoding", "").lower().split(",")
        packed = [
            name.strip() for name in named if name.strip() not in ("", "identity")
        ]
        if not _ENCODINGS.issuperset(packed):
            raise unknown_encoding(self._url, ", ".join(packed))
        most = MAX_REPLY_BYTES
        if response.status != 200 or (response.content_length or 0) > most:
            most = _MAX_EXCERPT_BYTES
        received = bytearray()
        async for chunk in response.content.iter_any():
            received += chunk
            if len(received) > most:
                response.close()
                break
        body = _unpack(bytes(received), packed, most) if packed else bytes(received)
        if len(body) > most or len(received) > most:
            body = body[:_MAX_EXCERPT_BYTES]
            return Answer(response.status, response.headers, body, whole=False)
        return Answer(response.status, response.headers, body)

    def _connect(self) -> aiohttp.ClientSession:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=allow_connections(self._most_in_flight),
                keepalive_timeout=_LONGEST_IDLE_S,
                ssl=self._certificates,
            ),
            headers={
                "Content-Type": "application/json",
                "Accept": "application/json",
                "Accept-Encoding": "gzip, deflate",
                "User-Agent": f"toolbank/{__version__}",
                **self._credentials.headers,
            },
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )
        return self._session


def _parse(url: str) -> URL:
    parts = urlsplit(url)
    if not parts.hostname or parts.port == 0 or not url.isprintable():
        raise ValueError("it names no host or no port")
    return URL(url)


def _find_proxy(url: str) -> str | None:
    """The proxy that the environment names for a URL."""
    parts = urlsplit(url)
    if is_loopback(url) or proxy_bypass(parts.netloc):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if proxy and urlsplit(proxy).scheme not in ("http", "https"):
        raise ValueError(
            "a proxy should be given as http://HOST:PORT or https://HOST:PORT"
        )
    if proxy:
        _parse(proxy)
    return proxy


def _unpack(body: bytes, packed: Sequence[str], most: int) -> bytes:
    """What was packed in these ways, the last one outermost; its beginning where it is larger.

    Raises:
        zlib.error: it is damaged.
    """
    for name in reversed(packed):
        is_whole = len(body) <= most
        try:
            unpacker = zlib.decompressobj(_WITH_HEAD)
            body = unpacker.decompress(body, most + 1)
        except zlib.error:
            if name != "deflate":
                raise
            unpacker = zlib.decompressobj(_WITHOUT_HEAD)
            body = unpacker.decompress(body, most + 1)
        if is_whole and len(body) <= most and not unpacker.eof:
            raise zlib.error("it ends too soon")
    return body
