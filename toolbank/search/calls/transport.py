"""How calls reach MCP servers over HTTP: at an address that was checked, and so much of an answer."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator

import httpx2

from toolbank.search.calls.config import CallError
from toolbank.search.calls.http import CheckedResolver
from toolbank.sources.mcp.connection import Connection, Incoming


class CheckedTransport(httpx2.AsyncBaseTransport):
    """Connects to the address that a name had when it was checked, and bounds what comes back.

    A name that is turned to another address afterwards (DNS rebinding) gains nothing: it is not
    looked up again. The certificate still has to be the name's. `connection` bounds all answers of
    a call together. They are measured as they arrive, so none may be compressed, or in another
    encoding than UTF-8.
    """

    def __init__(self, connection: Connection, *, private: bool) -> None:
        self._resolver, self._connection = CheckedResolver(private=private), connection
        self._inner = httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request.

        Raises:
            CallError: the address may not be called, or the answer is compressed or not UTF-8.
        """
        response = await self._connect(request)
        encoding = response.headers.get("Content-Encoding", "identity")
        if encoding.strip().lower() != "identity":
            await response.aclose()
            raise CallError("The answer is compressed, though that was not asked for.")
        charset = (response.charset_encoding or "utf-8").lower()
        if response.is_success and charset not in ("utf-8", "utf8", "us-ascii"):
            await response.aclose()
            raise CallError("The answer is not UTF-8.")
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Bounded(response.stream, Incoming(self._connection))
        return response

    async def _connect(self, request: httpx2.Request) -> httpx2.Response:
        """The answer of the first of the name's addresses that can be reached."""
        url = request.url
        port = url.port or (443 if url.scheme == "https" else 80)
        found = await self._resolver.resolve(url.host, port, socket.AF_UNSPEC)
        headers = httpx2.Headers(request.headers)
        headers["Accept-Encoding"] = "identity"
        refused: httpx2.ConnectError | None = None
        for one in found:
            try:
                return await self._inner.handle_async_request(
                    httpx2.Request(
                        request.method,
                        url.copy_with(host=one["host"]),
                        headers=headers,
                        stream=request.stream,
                        extensions={**request.extensions, "sni_hostname": url.host},
                    )
                )
            except httpx2.ConnectError as error:
                refused = error
        raise refused or CallError("The server's name has no address.")

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, counted: Incoming) -> None:
        self._inner, self._counted = inner, counted

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._inner:
            self._counted.receive(part)
            yield part

    async def aclose(self) -> None:
        await self._inner.aclose()
