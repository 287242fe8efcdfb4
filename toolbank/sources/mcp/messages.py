"""Messages of a server on their way to the SDK."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self

from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCResponse

from toolbank.sources.mcp.connection import Connection


class Messages:
    """A stream of messages, out of which the tools of a page are taken.

    The SDK's models refuse a whole page for one tool that is not as the protocol has it. So they
    get a page without tools, and those are in `Connection.tools`, as the server wrote them.
    """

    def __init__(self, stream: Any, connection: Connection) -> None:
        self._stream = stream
        self._connection = connection

    async def receive(self) -> SessionMessage | Exception:
        """The next message."""
        return self._take(await self._stream.receive())

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    def __aiter__(self) -> AsyncIterator[SessionMessage | Exception]:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return self._take(await self._stream.__anext__())

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        await self._stream.__aexit__(kind, error, trace)
        return None

    def __getattr__(self, name: str) -> Any:
        # The context of the sender, which streams of HTTP carry along.
        return getattr(self._stream, name)

    def _take(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        if isinstance(item, SessionMessage):
            message = item.message
            if isinstance(message, JSONRPCResponse) and "tools" in message.result:
                self._connection.tools = message.result["tools"]
                message.result["tools"] = []
        return item
