"""Send a call to an MCP server."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from toolbank.search.calls import CallError, Target
from toolbank.search.calls.http import CALL_TIME, MOST_ANSWER, NOT_PUBLIC
from toolbank.sources.mcp.connection import MB, Connection, ServerError
from toolbank.system.http import PrivateAddressError

_MOST_BYTES = 4 * MB
"""The maximum size of all messages of a call, in bytes."""
_MOST_VALUES = 20_000
"""The maximum number of JSON values in a call: they are parsed on the event loop."""


async def send_to_mcp(tool: str, arguments: Mapping[str, Any], target: Target) -> str:
    """Call a tool of an MCP server; gives its result as text without the target's secrets.

    Raises:
        CallError: the server can't be reached, does not answer in time, or answers with an error or
            too much.
    """
    try:
        async with asyncio.timeout(CALL_TIME):
            result = await _call(tool, arguments, target)
    except TimeoutError as error:
        raise CallError(f"The server did not answer in {CALL_TIME:g} s.") from error
    except CallError:
        raise
    # The client raises many kinds of exceptions, in groups.
    except Exception as error:
        inner = _first_of(error)
        if isinstance(inner, CallError):
            raise inner from error
        if isinstance(inner, PrivateAddressError):
            raise CallError(NOT_PUBLIC) from error
        raise CallError(
            f"The server cannot be reached ({type(inner).__name__})."
        ) from error
    text = "\n".join(getattr(part, "text", f"[{part.type}]") for part in result.content)
    if not text and result.structured_content is not None:
        try:
            text = json.dumps(result.structured_content, ensure_ascii=False)
        except (ValueError, RecursionError) as error:
            raise CallError("The answer cannot be written as JSON.") from error
    if len(text) > MOST_ANSWER:
        raise CallError(f"The answer is larger than {MOST_ANSWER:,} characters.")
    text = target.hide(text)
    if result.is_error:
        raise CallError(f"The tool failed: {text[:2000]}")
    return text


async def _call(tool: str, arguments: Mapping[str, Any], target: Target) -> Any:
    connection = Connection(
        largest=_MOST_BYTES, most_bytes=_MOST_BYTES, most_values=_MOST_VALUES
    )
    call = _call_command if target.command else _call_address
    try:
        return await call(tool, arguments, target, connection)
    except Exception as error:
        inner = _first_of(error)
        if connection.fault:
            raise CallError(f"The call was aborted: {connection.fault}.") from error
        if isinstance(inner, ServerError):
            raise CallError(f"The server cannot be called: {inner}.") from error
        raise


async def _call_address(
    tool: str, arguments: Mapping[str, Any], target: Target, connection: Connection
) -> Any:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    from toolbank.sources.mcp.http import BoundedTransport

    headers = target.credential.headers() if target.credential else {}
    transport = BoundedTransport(connection, guards=not target.private)
    async with (
        httpx2.AsyncClient(
            headers=headers,
            follow_redirects=False,
            timeout=CALL_TIME,
            trust_env=False,
            transport=transport,
        ) as http,
        _connect(streamable_http_client(target.mcp, http_client=http)) as client,
    ):
        return await client.call_tool(tool, dict(arguments))


async def _call_command(
    tool: str, arguments: Mapping[str, Any], target: Target, connection: Connection
) -> Any:
    from toolbank.sources.mcp.settings import Server
    from toolbank.sources.mcp.stdio import start

    given = {
        name: os.environ.get(ours, "") for name, ours in target.environment.items()
    }
    server = Server(name="", command=target.command, environment=given)
    transport: Any = start(server, connection)
    async with _connect(transport) as client:
        return await client.call_tool(tool, dict(arguments))


@asynccontextmanager
async def _connect(transport: Any) -> AsyncIterator[Any]:
    """Connect without checking answers against the server's output schemas.

    The SDK would check them on the event loop, where a regular expression may never end. Answers are
    only passed on as text.
    """
    from mcp import Client

    async def accept(name: str, result: Any) -> None:
        pass

    async with Client(transport) as client:
        client.session.validate_tool_result = accept  # type: ignore[method-assign]
        yield client


def _first_of(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
