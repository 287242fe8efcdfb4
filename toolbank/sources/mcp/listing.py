"""The tools that one server lists, page by page."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from mcp import Client, MCPError
from mcp.types import METHOD_NOT_FOUND, Implementation

from toolbank.sources.mcp.connection import Connection, ServerError
from toolbank.sources.mcp.explain import explain
from toolbank.sources.mcp.http import connect
from toolbank.sources.mcp.server import Server
from toolbank.sources.mcp.source import McpSource
from toolbank.sources.mcp.stdio import start
from toolbank.system.version import __version__

_MAX_PAGES = 2_000
# So many in a row that bring no tool of another name: it goes on for ever.
_MAX_IDLE_PAGES = 20
_MAX_TOOLS = 200_000
_MAX_CURSOR = 65_536
_LOGGERS = ("mcp", "client", "httpx2", "httpcore2")


@dataclass
class Listing:
    """What a server calls itself, "" where it doesn't say, and its tools as it wrote them.

    Nothing secret of the server is in them: `hidden` is in how many it was, and `unnamed` are
    the names that it was in, which are no names any more; those tools are not listed. `trouble` is
    why the list may go on, and no more of it was read.
    """

    name: str
    tools: list[Any] = field(default_factory=list)
    trouble: str = ""
    hidden: int = 0
    unnamed: list[str] = field(default_factory=list)


async def list_tools(server: Server, config: McpSource) -> Listing:
    """Ask a server for its tools, all pages of them.

    Raises:
        ServerError: it can't be reached or started, ends, is too late, says too much, or doesn't
            keep to the protocol. The reason holds no secret.
    """
    connection = Connection()
    try:
        with anyio.fail_after(config.timeout_s):
            listing = await _list_tools(_open(server, config, connection), connection)
    except Exception as error:
        raise explain(error, server, config.timeout_s, connection) from None
    return _hide_secrets(listing, server)


def _hide_secrets(listing: Listing, server: Server) -> Listing:
    hidden = Listing(server.hide(listing.name), trouble=listing.trouble)
    if hidden.name != listing.name:
        hidden.name = ""
    for tool in listing.tools:
        shown = server.hide_in(tool)
        if _is_named(tool) and shown.get("name") != tool["name"]:
            hidden.unnamed.append(server.hide(tool["name"]))
        else:
            hidden.tools.append(shown)
            hidden.hidden += shown != tool
    return hidden


@contextmanager
def quiet_logs() -> Iterator[None]:
    """Keep to themselves what the libraries log: addresses, headers, messages of servers."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [logger.propagate for logger in loggers]
    silent = logging.NullHandler()
    for logger in loggers:
        logger.propagate = False
        logger.addHandler(silent)
    try:
        yield
    finally:
        for logger, propagates in zip(loggers, before, strict=True):
            logger.propagate = propagates
            logger.removeHandler(silent)


def _open(
    server: Server, config: McpSource, connection: Connection
) -> AbstractAsyncContextManager[Any]:
    if server.command:
        return start(server, connection)
    return connect(
        server, connection, config.timeout_s, private_addresses=config.private_addresses
    )


async def _list_tools(
    transport: AbstractAsyncContextManager[Any], connection: Connection
) -> Listing:
    about = Implementation(name="toolbank", version=__version__)
    async with Client(transport, client_info=about) as client:
        listing = Listing(client.server_info.name if client.server_info else "")
        tools = listing.tools
        seen: set[str] = set()
        names: set[str] = set()
        # So many of the tools came by the last page that had one of another name.
        useful = idle = 0
        cursor: str | None = None
        while True:
            connection.tools = None
            try:
                page = await client.list_tools(cursor=cursor, cache_mode="bypass")
            except MCPError as error:
                # By HTTP the SDK says so of a page that is not there, too.
                if error.code == METHOD_NOT_FOUND and connection.status in (0, 200):
                    return listing
                raise
            if not isinstance(connection.tools, list):
                raise ServerError("the tools that it lists are no list")
            tools += connection.tools
            new = {t["name"] for t in connection.tools if _is_named(t)} - names
            names |= new
            useful, idle = (len(tools), 0) if new else (useful, idle + 1)
            cursor = page.next_cursor
            if not cursor:
                return listing
            listing.trouble = _find_trouble(cursor, seen, idle, len(tools))
            if listing.trouble:
                del tools[useful:]
                return listing
            seen.add(cursor)


def _find_trouble(cursor: str, seen: Collection[str], idle: int, tools: int) -> str:
    """Why no further page is asked for, or ""."""
    if cursor in seen:
        return "it gives the same page again and again (its cursor repeats)"
    if idle > _MAX_IDLE_PAGES:
        return "it gives pages for ever, and nothing new in them"
    if tools > _MAX_TOOLS:
        return f"it lists more than {_MAX_TOOLS:,} tools"
    if len(seen) >= _MAX_PAGES:
        return f"it gives more than {_MAX_PAGES:,} pages of tools"
    if len(cursor) > _MAX_CURSOR:
        return "the cursor of its next page is too long"
    return ""


def _is_named(tool: Any) -> bool:
    return isinstance(tool, dict) and isinstance(tool.get("name"), str)
