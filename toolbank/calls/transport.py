"""How calls reach MCP servers over HTTP: at an address that was checked, and so much of an answer."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2

from toolbank.calls.addresses import CheckedResolver
from toolbank.calls.errors import CallError


class CheckedTransport(httpx2.AsyncBaseTransport):
    """Connects to the address that a name had when it was checked, and bounds what comes back.

    A name that is turned to another address afterwards (DNS rebinding) gains nothing: it is not
    looked up again. The certificate still has to be the name's.
    """

    def __init__(self, *, private: bool, most: int) -> None:
        self._resolver, self._most = CheckedResolver(private=private), most
        self._inner = httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request.

        Raises:
            CallError: the address may not be called, or the answer is too large.
        """
        url = request.url
        port = url.port or (443 if url.scheme == "https" else 80)
        found = await self._resolver.resolve(url.host, port)
        response = await self._inner.handle_async_request(
            httpx2.Request(
                request.method,
                url.copy_with(host=found[0]["host"]),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": url.host},
            )
        )
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Bounded(response.stream, self._most)
        return response

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, most: int) -> None:
        self._inner, self._left = inner, most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._inner:
            self._left -= len(part)
            if self._left < 0:
                raise CallError("The answer is larger than it may be.")
            yield part

    async def aclose(self) -> None:
        await self._inner.aclose()
