"""Connect to a server by HTTP: its address is checked, and its responses are limited."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from toolbank.sources.mcp.connection import MAX_MESSAGE, Connection, Incoming, Messages
from toolbank.sources.mcp.settings import Server
from toolbank.system.http import BoundedReader, TooLargeError, resolve_public
from toolbank.system.net import is_loopback, proxy_of
from toolbank.system.version import __version__


@asynccontextmanager
async def connect(
    server: Server, connection: Connection, seconds: float, *, guards: bool
) -> AsyncIterator[tuple[object, object]]:
    """Open the streams of messages from and to a server, which has `seconds` for each answer.

    With `guards`, its address must be public, unless a proxy looks the address up. The SDK follows
    redirects only within the server's origin, so headers go nowhere else.
    """
    proxy = proxy_of(server.url)
    guards, is_here = guards and not proxy, is_loopback(server.url)
    headers = {**server.headers, "User-Agent": f"toolbank/{__version__}"}

    def make_client(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        transport = BoundedTransport(
            connection, guards=guards, verifies=not is_here, proxy=proxy
        )
        return httpx2.AsyncClient(
            transport=transport, headers=headers, timeout=timeout, auth=auth
        )

    if server.uses_sse:
        async with sse_client(server.url, headers, seconds, seconds, make_client) as (
            messages,
            requests,
        ):
            yield Messages(messages, connection), requests
        return
    async with (
        make_client(headers, httpx2.Timeout(seconds)) as client,
        streamable_http_client(
            server.url, http_client=client, max_sse_event_size=MAX_MESSAGE
        ) as (messages, requests),
    ):
        yield Messages(messages, connection), requests


@cache
def _read_certificates() -> ssl.SSLContext:
    """Load the certificates once: it takes a tenth of a second."""
    return httpx2.create_ssl_context()


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Records the last response in a connection, and limits its size.

    If it `guards`, requests go to the resolved addresses that were checked, so a name that resolves
    to another address later does not get past the check. The certificate still has to be that of the
    name. Responses are measured as they arrive, so they may not be compressed and, if JSON values
    are counted, have to be UTF-8.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        guards: bool,
        verifies: bool = True,
        proxy: str | None = None,
    ) -> None:
        self._inner = httpx2.AsyncHTTPTransport(
            verify=_read_certificates() if verifies else False, proxy=proxy
        )
        self._connection = connection
        self._guards = guards
        self._reached = ""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request.

        Raises:
            PrivateAddressError: the host has a private address.
            ServerError: the response is compressed or not UTF-8.
        """
        request.headers["Accept-Encoding"] = "identity"
        response = await self._send(request)
        connection = self._connection
        # Many servers refuse GET and DELETE, which says nothing about the request.
        if request.method == "POST" or not connection.status:
            connection.status = response.status_code
            connection.content_type = response.headers.get("content-type", "")
            connection.location = response.headers.get("location", "")
        encoding = response.headers.get("content-encoding", "identity")
        charset = (response.charset_encoding or "utf-8").lower()
        is_utf8 = charset in ("utf-8", "utf8", "us-ascii")
        if encoding.strip().lower() != "identity":
            refusal = "compressed, which was not requested"
        elif response.is_success and connection.most_values is not None and not is_utf8:
            refusal = "not UTF-8"
        else:
            response.stream = _BoundedStream(response, connection)
            return response
        await response.aclose()
        raise connection.refuse(f"its response is {refusal}")

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request to the first address of the host that can be reached."""
        if not self._guards:
            return await self._inner.handle_async_request(request)
        found = await resolve_public(request.url.host, request.url.port)
        addresses = sorted(found, key=lambda address: address != self._reached)
        for address in addresses[:-1]:
            try:
                # A silent address gets only its share of the time.
                pinned = _pin(request, address, 1 / len(addresses))
                response = await self._inner.handle_async_request(pinned)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue
            self._reached = address
            return response
        return await self._inner.handle_async_request(_pin(request, addresses[-1]))


def _pin(request: httpx2.Request, address: str, share: float = 1) -> httpx2.Request:
    """Send a request to an address of its host, with a share of the time to connect."""
    times = dict(request.extensions.get("timeout", {}))
    if times.get("connect") is not None:
        times["connect"] *= share
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={
            **request.extensions,
            "timeout": times,
            "sni_hostname": request.url.host,
        },
    )


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, response: httpx2.Response, connection: Connection) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        self._inner = response.stream
        self._connection = connection
        # A stream of events may go on; the SDK bounds each of them.
        kind = response.headers.get("content-type", "")
        is_stream = kind.startswith("text/event-stream")
        self._most = connection.most_bytes + 1 if is_stream else connection.largest

    async def __aiter__(self) -> AsyncIterator[bytes]:
        incoming, reader = Incoming(self._connection), BoundedReader(self._most)
        try:
            async for chunk in self._inner:
                for part in reader.feed(chunk):
                    incoming.receive(part)
                    yield part
        except TooLargeError as error:
            raise self._connection.refuse_size() from error

    async def aclose(self) -> None:
        await self._inner.aclose()
