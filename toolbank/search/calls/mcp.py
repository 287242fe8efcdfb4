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
    connection = Connection(
        largest=_MOST_BYTES, most_bytes=_MOST_BYTES, most_values=_MOST_VALUES
    )
    limit = asyncio.timeout(CALL_TIME)
    try:
        async with (
            limit,
            _open_transport(target, connection) as transport,
            _connect(transport) as client,
        ):
            result = await client.call_tool(tool, dict(arguments))
    # The client raises many kinds of exceptions, in groups.
    except Exception as error:
        raise CallError(_explain(error, connection, limit.expired())) from error
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


def _explain(error: BaseException, connection: Connection, is_late: bool) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if connection.fault:
        return f"The call was aborted: {connection.fault}."
    if is_late:
        return f"The server did not answer in {CALL_TIME:g} s."
    if isinstance(error, ServerError):
        return f"The server cannot be called: {error}."
    if isinstance(error, PrivateAddressError):
        return NOT_PUBLIC
    return f"The server cannot be reached ({type(error).__name__})."


@asynccontextmanager
async def _open_transport(target: Target, connection: Connection) -> AsyncIterator[Any]:
    if target.command:
        from toolbank.sources.mcp.settings import Server
        from toolbank.sources.mcp.stdio import start

        given = {
            name: os.environ.get(ours, "") for name, ours in target.environment.items()
        }
        yield start(
            Server(name="", command=target.command, environment=given), connection
        )
        return
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    from toolbank.sources.mcp.http import BoundedTransport

    async with httpx2.AsyncClient(
        headers=target.credential.headers() if target.credential else {},
        follow_redirects=False,
        timeout=CALL_TIME,  # also of the end of the session, after that of the call
        trust_env=False,
        transport=BoundedTransport(connection, guards=not target.private),
    ) as http:
        yield streamable_http_client(target.mcp, http_client=http)


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
