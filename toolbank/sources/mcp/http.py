"""A server that is asked by HTTP: its address is guarded, and its answers are counted."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from toolbank.sources.mcp.connection import MAX_MESSAGE, Connection, ServerError
from toolbank.sources.mcp.messages import Messages
from toolbank.sources.mcp.source import Server
from toolbank.system.net import is_loopback, is_public_ip, proxy_of
from toolbank.system.version import __version__


@asynccontextmanager
async def connect(
    server: Server, connection: Connection, seconds: float, *, private_addresses: bool
) -> AsyncIterator[tuple[object, object]]:
    """The streams of messages from and to a server at an address.

    The SDK follows a redirect within the server's own origin alone, so that headers go nowhere
    else.
    """
    proxy = proxy_of(server.url)
    guards = not (is_loopback(server.url) or private_addresses or proxy)
    inner = httpx2.AsyncHTTPTransport(
        verify=not is_loopback(server.url), trust_env=False, proxy=proxy
    )
    headers = {
        **server.headers,
        "User-Agent": f"toolbank/{__version__}",
        # What comes packed could be of any size.
        "Accept-Encoding": "identity",
    }

    def make_client(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        transport = _Counted(inner, connection, guards)
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


class _Counted(httpx2.AsyncBaseTransport):
    """Notes what is answered, and reads no more of it than a server may say.

    Where it `guards`, a request goes to the very addresses that were checked, so that a name that
    resolves to another one the next time does not get around it.
    """

    def __init__(
        self, inner: httpx2.AsyncHTTPTransport, connection: Connection, guards: bool
    ) -> None:
        self._inner = inner
        self._connection = connection
        self._guards = guards
        self._reached = ""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._send(request)
        connection = self._connection
        # Streams and goodbyes, which many servers refuse, say nothing of what was asked.
        if request.method == "POST" or not connection.status:
            connection.status = response.status_code
            connection.content_type = response.headers.get("content-type", "")
            connection.location = response.headers.get("location", "")
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise self._refuse("its answer is packed, though that was not asked for")
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_CountedStream(response, connection),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        """Send it to the first of the host's addresses that can be reached."""
        if not self._guards:
            return await self._inner.handle_async_request(request)
        addresses = await self._resolve(request.url)
        for address in addresses[:-1]:
            try:
                # One that is silent takes its share of the time only.
                pinned = _pin(request, address, 1 / len(addresses))
                response = await self._inner.handle_async_request(pinned)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue
            self._reached = address
            return response
        return await self._inner.handle_async_request(_pin(request, addresses[-1]))

    async def _resolve(self, url: httpx2.URL) -> list[str]:
        """The addresses of a host, all of them public; the one that was reached before first."""
        try:
            found = await asyncio.get_running_loop().getaddrinfo(
                url.host, url.port, type=socket.SOCK_STREAM
            )
        except OSError as error:
            raise self._refuse("its host is not found", may_pass=True) from error
        addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
        for address in addresses:
            if not is_public_ip(address):
                raise self._refuse(
                    f"it lies at a private address, {address}; if that is meant, "
                    "`private_addresses: true` lets it in"
                )
        return sorted(addresses, key=lambda address: address != self._reached)

    def _refuse(self, reason: str, *, may_pass: bool = False) -> ServerError:
        self._connection.fault = reason
        return ServerError(reason, may_pass=may_pass)


def _pin(request: httpx2.Request, address: str, share: float = 1) -> httpx2.Request:
    """The request, to an address of its host; `share` of the time is for connecting."""
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


class _CountedStream(httpx2.AsyncByteStream):
    def __init__(self, response: httpx2.Response, connection: Connection) -> None:
        self._response = response
        self._connection = connection
        # A stream of events may go on; the SDK bounds each of them.
        kind = response.headers.get("content-type", "")
        self._is_stream = kind.startswith("text/event-stream")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._response.stream:  # type: ignore[union-attr]
            size += len(chunk)
            self._connection.receive(len(chunk))
            if size > MAX_MESSAGE and not self._is_stream:
                raise self._connection.refuse_size()
            yield chunk

    async def aclose(self) -> None:
        await self._response.aclose()
