"""Sending a request's bytes to an endpoint, and reading what comes back within bounds."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import toolbank
from toolbank.addresses import is_loopback
from toolbank.errors import InputError
from toolbank.llm.chat import EngineError
from toolbank.llm.endpoint_errors import (
    connection_error,
    packing_error,
    unknown_encoding,
)
from toolbank.llm.open_files import allow_connections

if TYPE_CHECKING:
    from openai import DefaultAioHttpClient

MAX_REPLY_BYTES = 4 * 2**20
# What is kept of a larger reply, and read of an error.
_MAX_EXCERPT_BYTES = 400_000
# Servers mostly close an idle connection after 5 s; a call must not be sent on one just then.
_LONGEST_IDLE_S = 4.0
# What the SDK's transport unpacks wherever it runs.
_ENCODINGS = frozenset({"", "identity", "gzip", "deflate"})


@dataclass(frozen=True)
class Answer:
    """What came back of an HTTP request. Not `whole`: the body is longer, and this its beginning.

    `headers` finds names in lower case.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    whole: bool = True

    @property
    def text(self) -> str:
        """The body as text, whatever its bytes."""
        return self.body.decode("utf-8", "replace")


class Endpoint:
    """The chat-completions address under a base URL, reached by the SDK's aiohttp client.

    The client is used without the SDK's own layer: that takes twice the CPU even for a raw body,
    reads an error's body whatever its length, and sends what the environment says of another
    endpoint (OPENAI_ORG_ID, OPENAI_CUSTOM_HEADERS). Proxies of the environment serve any endpoint
    but one on this machine.

    Raises:
        InputError: the URL, or a proxy or certificates of the environment, can't be used.
    """

    def __init__(self, base_url: str, key: str, most_in_flight: int) -> None:
        self._url = base_url
        self._key = key
        # Here and not with the first call: the import takes a second of that call's time.
        try:
            self._client = _connect(base_url, key, most_in_flight)
            # Parsed once: that takes as long as all else that is done for a URL.
            self._address = self._client.build_request("POST", "chat/completions").url
        except Exception as error:
            raise InputError(
                f"base_url: {base_url} is no address that can be asked, or the proxy or the "
                f"certificates that the environment names can't be used ({error})."
            ) from error

    async def post(self, body: bytes) -> Answer:
        """Send a JSON body and read the answer, whatever its status; the caller bounds the time.

        Raises:
            EngineError: the connection failed, or the body can't be unpacked.
        """
        try:
            async with self._client.stream(
                "POST", self._address, content=body
            ) as response:
                return await self._read(response)
        except EngineError:
            raise
        except Exception as error:
            # The exceptions of httpx2, of aiohttp under it, and of the system come through.
            if isinstance(error.__cause__, zlib.error):
                raise packing_error(self._url, error) from error
            raise connection_error(error, self._url, self._key) from error

    async def close(self) -> None:
        """Let go of connections."""
        await self._client.aclose()

    async def _read(self, response: Any) -> Answer:
        status = response.status_code
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in response.headers.raw
        }
        packed = headers.get("content-encoding", "")
        if not _ENCODINGS.issuperset(
            name.strip().lower() for name in packed.split(",")
        ):
            raise unknown_encoding(self._url, packed)
        most = MAX_REPLY_BYTES
        if status != 200 or _announced(headers) > most:
            most = _MAX_EXCERPT_BYTES
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > most:
                del body[_MAX_EXCERPT_BYTES:]
                return Answer(status, headers, bytes(body), whole=False)
        return Answer(status, headers, bytes(body))


def _connect(url: str, key: str, most_in_flight: int) -> DefaultAioHttpClient:
    import openai

    parts = urlsplit(url)
    if not parts.hostname or parts.port == 0:
        raise ValueError("it names no host or no port")
    connections = allow_connections(most_in_flight)
    limits = type(openai.DEFAULT_CONNECTION_LIMITS)(
        max_connections=connections,
        max_keepalive_connections=connections,
        keepalive_expiry=_LONGEST_IDLE_S,
    )
    direct = dict.fromkeys(("all://", "http://", "https://"))
    return openai.DefaultAioHttpClient(
        base_url=url,
        headers={
            "Authorization": f"Bearer {key}",
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "gzip, deflate",
            "User-Agent": f"toolbank/{toolbank.__version__}",
        },
        limits=limits,
        timeout=None,
        follow_redirects=False,
        mounts=direct if is_loopback(url) else None,
    )


def _announced(headers: Mapping[str, str]) -> int:
    """Bytes of the body as the server says; 0 where it doesn't."""
    length = headers.get("content-length", "")
    return int(length) if length.isdecimal() and len(length) < 20 else 0
