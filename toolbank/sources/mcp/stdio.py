"""Start a server and exchange messages by its stdin and stdout.

The SDK's own transport reads lines of any length, and writes stderr to the terminal.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCMessage, jsonrpc_message_adapter

from toolbank.sources.mcp.connection import Connection, Incoming, Messages, ServerError
from toolbank.sources.mcp.settings import Server
from toolbank.system.text import decode_json, replace_surrogates

# The locale decides how programs encode text.
_FURTHER = ("LANG", "LC_ALL", "LC_CTYPE", "TMPDIR")
_CHUNK = 65_536
_MAX_INVALID = 1_000
# Seconds that a server has to end after its stdin is closed, and after SIGTERM.
_GRACE = 1.0
_POLL = 0.005


@asynccontextmanager
async def start(
    server: Server, connection: Connection
) -> AsyncIterator[tuple[object, object]]:
    """Start a server and open the streams of messages from and to it.

    At the end of the block, the process and its process group are ended.

    Raises:
        ServerError: it can't be started.
    """
    process = await _start(server, connection.largest)
    incoming, messages = anyio.create_memory_object_stream[SessionMessage | Exception](
        0
    )
    requests, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_read_stdout, process, incoming, connection)
            tasks.start_soon(_write, process, outgoing)
            tasks.start_soon(_read_stderr, process, connection)
            yield Messages(messages, connection), requests
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await _stop(process)
            with anyio.move_on_after(_GRACE), suppress(ServerError):
                await _read_stderr(process, connection)
            _close(process)
        connection.exit_code = process.returncode
        for stream in (incoming, messages, requests, outgoing):
            stream.close()


async def _start(server: Server, largest: int) -> Process:
    here = {name: os.environ[name] for name in _FURTHER if name in os.environ}
    try:
        return await asyncio.create_subprocess_exec(
            *server.command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env={**get_default_environment(), **here, **server.environment},
            cwd=server.folder or None,
            limit=largest,
            # A process group of its own: Ctrl-C does not reach it, and it is ended as a whole.
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        words = "; give the program and its arguments as separate words"
        hint = words if " " in server.command[0] else ""
        said = getattr(error, "strerror", None) or error
        place = getattr(error, "filename", None)
        missing = f": {place}" if place else ""
        raise ServerError(f"it cannot be started: {said}{missing}{hint}") from error


async def _read_stdout(
    process: Process,
    incoming: anyio.abc.ObjectSendStream[SessionMessage | Exception],
    connection: Connection,
) -> None:
    """Pass on the messages, a line each, until the end or a limit."""
    assert process.stdout
    invalid = 0
    messages = Incoming(connection)
    # The connection has the reason of a `ServerError`.
    async with incoming:
        with suppress(ServerError):
            while line := await _read_line(process.stdout, connection):
                messages.receive(line)
                if not line.strip():
                    continue
                try:
                    message = _parse(line)
                except ValueError:
                    # Many servers print a greeting to stdout.
                    connection.invalid_line = connection.invalid_line or line[:_CHUNK]
                    invalid += 1
                    if invalid > _MAX_INVALID:
                        said = "it floods stdout with lines that are not messages"
                        raise connection.refuse(said) from None
                    continue
                with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await incoming.send(SessionMessage(message))
            connection.has_ended = True


async def _read_line(stdout: asyncio.StreamReader, connection: Connection) -> bytes:
    try:
        return await stdout.readline()
    except ValueError as error:
        raise connection.refuse_size() from error


def _parse(line: bytes) -> JSONRPCMessage:
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        # Half a surrogate pair, as of a text cut within an emoji, is valid only for this parser.
        # It gets text: from bytes it would detect UTF-16, in which values can't be counted.
        content = decode_json(line.decode("utf-8-sig", "surrogatepass"))
        whole = replace_surrogates(json.dumps(content, ensure_ascii=False))
        return jsonrpc_message_adapter.validate_json(whole, by_name=False)


async def _write(
    process: Process, outgoing: anyio.abc.ObjectReceiveStream[SessionMessage]
) -> None:
    assert process.stdin
    with suppress(ConnectionError):
        async with outgoing:
            async for item in outgoing:
                said = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(said.encode() + b"\n")
                await process.stdin.drain()


async def _read_stderr(process: Process, connection: Connection) -> None:
    assert process.stderr
    while chunk := await process.stderr.read(_CHUNK):
        connection.add_stderr(chunk)


async def _stop(process: Process) -> None:
    """End the process and its group: close its stdin, then SIGTERM, then SIGKILL."""
    assert process.stdin
    process.stdin.close()
    if not await _ends(process, _GRACE):
        _signal(process, signal.SIGTERM)
        await _ends(process, _GRACE)
    # Its own child processes may still run.
    _signal(process, getattr(signal, "SIGKILL", signal.SIGTERM))
    await _ends(process, _GRACE)


def _close(process: Process) -> None:
    """Close the pipes; a process outside of the group may have inherited them."""
    if transport := getattr(process, "_transport", None):
        transport.close()


async def _ends(process: Process, seconds: float) -> bool:
    """Whether it ends within so many seconds; `wait` would also wait for its pipes."""
    with anyio.move_on_after(seconds):
        while process.returncode is None:
            await anyio.sleep(_POLL)
    return process.returncode is not None


def _signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
