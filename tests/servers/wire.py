"""A server on loopback that is told to the byte what it sends, and how the connection ends.

    with WireServer(lambda call: Wire.json(b'{"choices": null}')) as server:
        config = GenerateConfig(engine="openai", base_url=server.url, model="m")

The script gets each `Call` and returns a `Wire`. It runs in the server's own thread, one call
after the other, while any number of answers are on their way.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Self

from tests.servers.chat import Call
from tests.servers.named import forget_host, name_host


@dataclass(frozen=True)
class Wire:
    """Pieces of bytes, each after `pause` seconds; then the connection is kept, closed or reset."""

    pieces: tuple[bytes, ...]
    pause: float = 0
    end: Literal["keep", "close", "reset"] = "keep"

    @classmethod
    def http(
        cls,
        body: bytes,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        length: int | None = None,
        **how: object,
    ) -> Wire:
        """An HTTP answer; `length` is what Content-Length says, if it is to lie."""
        lines = [f"HTTP/1.1 {status} Something"]
        given = {
            "Content-Type": "application/json",
            "Content-Length": str(len(body) if length is None else length),
            **(headers or {}),
        }
        lines += [f"{name}: {value}" for name, value in given.items() if value]
        head = "\r\n".join(lines).encode() + b"\r\n\r\n"
        return cls((head + body,), **how)  # type: ignore[arg-type]

    @classmethod
    def chunked(cls, chunks: list[bytes], **how: object) -> Wire:
        """An HTTP answer whose length nobody knows before its end."""
        head = (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        framed = [b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks]
        return cls((head, *framed, b"0\r\n\r\n"), **how)  # type: ignore[arg-type]


Script = Callable[[Call], Wire]


class WireServer:
    """Listens on 127.0.0.1 while the `with` block runs."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.calls: list[Call] = []
        self.connections = 0
        self._port = 0
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def url(self) -> str:
        """The base URL, with the /v1 that endpoints have."""
        return f"http://127.0.0.1:{self._port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        name_host(self.url)
        return self

    def __exit__(self, *_: object) -> None:
        forget_host(self.url)
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", 0, backlog=256
        )
        self._port = self._server.sockets[0].getsockname()[1]

    async def _end(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.connections += 1
        try:
            while await self._answer(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").splitlines()
        lines = (line.partition(":") for line in head[1:] if line)
        headers = {name.lower(): value.strip() for name, _, value in lines}
        body = await reader.readexactly(int(headers["content-length"]))
        path = head[0].split()[1]
        call = Call(len(self.calls), path, headers, json.loads(body))
        self.calls.append(call)
        wire = self.script(call)
        for piece in wire.pieces:
            await asyncio.sleep(wire.pause)
            writer.write(piece)
            await writer.drain()
        if wire.end == "reset":
            # What was sent before has to arrive before the reset.
            await asyncio.sleep(0.02 if wire.pieces else 0)
            _reset(writer)
        return wire.end == "keep"


def _reset(writer: asyncio.StreamWriter) -> None:
    connection: socket.socket = writer.get_extra_info("socket")
    linger = (1).to_bytes(4, "little") + bytes(4)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()
