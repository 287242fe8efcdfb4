"""The state of a connection to a server, its limits, and the messages on their way to the SDK."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from anyio.abc import ObjectReceiveStream
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCResponse

from toolbank.system.terminal import printable

MB = 1024 * 1024
MAX_MESSAGE = 32 * MB
MAX_BYTES = 256 * MB
_TAIL = 4096
_SHOWN = 500


class ServerError(Exception):
    """A server gave no tools; with `may_pass`, trying again may help."""

    def __init__(self, reason: str, *, may_pass: bool = False) -> None:
        super().__init__(reason)
        self.may_pass = may_pass


@dataclass
class Connection:
    """What a server has sent so far, and how much it may send.

    Attributes:
        received: bytes.
        values: JSON values, counted only with `most_values`.
        fault: why reading was stopped, or "".
        invalid_line: the first line that is not a message.
        stderr: the last bytes of stderr.
        has_ended: whether a process closed its stdout by itself.
        status, content_type, location: of the last HTTP response.
        tools: the tools of the last page.
        largest: limit of the bytes of one message.
        most_bytes, most_values: limits of all messages.
    """

    received: int = 0
    values: int = 0
    fault: str = ""
    invalid_line: bytes = b""
    stderr: bytearray = field(default_factory=bytearray)
    has_ended: bool = False
    exit_code: int | None = None
    status: int = 0
    content_type: str = ""
    location: str = ""
    tools: object = None
    largest: int = MAX_MESSAGE
    most_bytes: int = MAX_BYTES
    most_values: int | None = None

    def receive(self, size: int, values: int = 0) -> None:
        """Count bytes and JSON values.

        Raises:
            ServerError: the server sends too much.
        """
        self.received += size
        self.values += values
        if self.received > self.most_bytes:
            raise self.refuse(f"it sends more than {self.most_bytes // MB} MB")
        if self.most_values is not None and self.values > self.most_values:
            raise self.refuse(f"it sends more than {self.most_values:,} JSON values")

    def refuse_size(self) -> ServerError:
        """Return the error that a message is too large."""
        return self.refuse(f"one message is over {self.largest // MB} MB")

    def refuse(self, fault: str) -> ServerError:
        """Set the fault, and return it as an error."""
        self.fault = fault
        return ServerError(fault)

    def add_stderr(self, chunk: bytes) -> None:
        """Count a part of stderr, and keep the last bytes.

        Raises:
            ServerError: the server sends too much.
        """
        self.receive(len(chunk))
        self.stderr += chunk
        del self.stderr[:-_TAIL]

    def stderr_tail(self, hide: Callable[[str], str]) -> str:
        """The last lines of stderr as one line, after `hide` removed secrets."""
        lines = hide(self.stderr.decode("utf-8", "replace")).splitlines()
        said = " / ".join(" ".join(line.split()) for line in lines if line.strip())
        return printable(said if len(said) <= _SHOWN else f"...{said[-_SHOWN:]}")


class Incoming:
    """Counts a stream of JSON messages before it is parsed.

    A parser takes seconds for a few megabytes of empty lists. The count of values is an upper
    bound: commas and opening brackets outside of strings, and lines.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._in_string = False
        self._escape = b""

    def receive(self, content: bytes) -> None:
        """Count the next part.

        Raises:
            ServerError: the server sends too much.
        """
        most = self._connection.most_values
        values = 0 if most is None else self._count(content, most)
        self._connection.receive(len(content), values)

    def _count(self, content: bytes, most: int) -> int:
        content = self._escape + content
        backslashes = len(content) - len(content.rstrip(b"\\"))
        # An escape may continue in the next part.
        self._escape = b"\\" * (backslashes % 2)
        content = content.removesuffix(self._escape)
        content = content.replace(b"\\\\", b"").replace(b'\\"', b"")
        content = content.replace(b"\r", b"\n")
        values = content.count(b"\n")
        # A value has at most two strings, itself and its key. Splitting at more takes long.
        if (least := max(values, content.count(b'"') // 4)) > most:
            return least
        for number, line in enumerate(content.split(b"\n")):
            # JSON strings have no line breaks.
            inside = self._in_string and number == 0
            pieces = line.split(b'"')
            outside = b"".join(pieces[inside::2])
            values += sum(map(outside.count, (b",", b"[", b"{")))
            self._in_string = inside ^ (len(pieces) % 2 == 0)
        return values


class Messages(ObjectReceiveStream[SessionMessage | Exception]):
    """A stream of messages that moves the tools of a page to `Connection.tools`.

    The SDK refuses a whole page for one tool that violates the protocol, so it gets pages without
    tools.
    """

    def __init__(self, stream: Any, connection: Connection) -> None:
        self._stream = stream
        self._connection = connection

    async def receive(self) -> SessionMessage | Exception:
        """The next message."""
        item: SessionMessage | Exception = await self._stream.receive()
        if isinstance(item, SessionMessage):
            message = item.message
            if isinstance(message, JSONRPCResponse) and "tools" in message.result:
                self._connection.tools = message.result["tools"]
                message.result["tools"] = []
        return item

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    def __getattr__(self, name: str) -> Any:
        # Streams of HTTP have the context of the sender.
        return getattr(self._stream, name)
