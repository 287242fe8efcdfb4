"""A server on loopback that is told to the byte what it sends, and how the connection ends.

    with WireServer(lambda call: Wire.json(b'{"choices": null}')) as server:
        config = GenerateConfig(engine="openai", base_url=server.url, model="m")

The script gets each `Call` and returns a `Wire`. It runs in the server's own thread, one call
after the other, while any number of answers are on their way.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
from dataclasses import dataclass
from typing import Any, Literal

from tests.servers.named import forget_host, name_host


@dataclass(frozen=True)
class Call:
    """A request as it came in; `number` counts from 0 over the server's life."""

    number: int
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def prompt(self):
        return "\n".join(message["content"] for message in self.body["messages"])

    @property
    def format(self):
        """The kind of response_format that was asked for; "text" where none was."""
        return self.body.get("response_format", {}).get("type", "text")

    @property
    def offered(self):
        """The names of the tools that the prompt shows; [] where it asks for polish."""
        shown = self.prompt.partition("\n# Tools\n")[2].partition("\n# ")[0]
        return re.findall(r"^- ([^:]+): ", shown, re.MULTILINE)

    @property
    def asked_for(self):
        """The tool that asks are wanted for; "" where the prompt wants something else."""
        found = re.search(r"^# The tool\n\n(\S+) \(", self.prompt, re.MULTILINE)
        return found[1] if found else ""

    @property
    def keys(self):
        """The keys of the answer that the request's schema asks for."""
        schema = self.body["response_format"]["json_schema"]["schema"]
        return list(schema["properties"])

    @property
    def asks_polish(self):
        return '"already_good"' in self.prompt


@dataclass(frozen=True)
class Wire:
    """Pieces of bytes, each after `pause` seconds; then the connection is kept, closed or reset."""

    pieces: tuple[bytes, ...]
    pause: float = 0
    end: Literal["keep", "close", "reset"] = "keep"

    @classmethod
    def http(cls, body, status=200, headers=None, length=None, **how):
        """An HTTP answer; `length` is what Content-Length says, if it is to lie."""
        lines = [f"HTTP/1.1 {status} Something"]
        given = {
            "Content-Type": "application/json",
            "Content-Length": str(len(body) if length is None else length),
            **(headers or {}),
        }
        lines += [f"{name}: {value}" for name, value in given.items() if value]
        head = "\r\n".join(lines).encode() + b"\r\n\r\n"
        return cls((head + body,), **how)

    @classmethod
    def chunked(cls, chunks, **how):
        """An HTTP answer whose length nobody knows before its end."""
        head = (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        framed = [b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks]
        return cls((head, *framed, b"0\r\n\r\n"), **how)


class WireServer:
    """Listens on 127.0.0.1 while the `with` block runs."""

    def __init__(self, script):
        self.script = script
        self.calls: list[Call] = []
        # What it says of itself, by path.
        self.says = {}
        self.connections = 0
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=256)
        # The base URL, with the /v1 that endpoints have.
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self):
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        name_host(self.url)
        return self

    def __exit__(self, *_):
        forget_host(self.url)
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def note(self, path, headers, body):
        call = Call(len(self.calls), path, headers, json.loads(body or b"{}"))
        self.calls.append(call)
        return call

    async def respond(self, method, path, headers, body):
        return self.script(self.note(path, headers, body))

    async def _listen(self):
        self._server = await asyncio.start_server(self._serve, sock=self._socket)

    async def _end(self):
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader, writer):
        self.connections += 1
        try:
            while await self._exchange(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _exchange(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").splitlines()
        method, path, _ = head[0].split()
        lines = (line.partition(":") for line in head[1:] if line)
        headers = {name.lower(): value.strip() for name, _, value in lines}
        body = await _read_body(reader, headers)
        if method == "GET" and not path.startswith("/v1"):
            said = json.dumps(self.says.get(path)).encode()
            wire = Wire.http(said, 200 if path in self.says else 404)
        else:
            wire = await self.respond(method, path, headers, body)
        for piece in wire.pieces:
            await asyncio.sleep(wire.pause)
            writer.write(piece)
            await writer.drain()
        if wire.end == "reset":
            # What was sent before has to arrive before the reset.
            await asyncio.sleep(0.02 if wire.pieces else 0)
            _reset(writer)
        return wire.end == "keep"


async def _read_body(reader, headers):
    if headers.get("transfer-encoding") != "chunked":
        return await reader.readexactly(int(headers.get("content-length", 0)))
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return body


def _reset(writer):
    connection: socket.socket = writer.get_extra_info("socket")
    linger = (1).to_bytes(4, "little") + bytes(4)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()
