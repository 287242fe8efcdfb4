"""The tools that one server lists, page by page."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from mcp import Client, MCPError
from mcp.types import METHOD_NOT_FOUND, Implementation

from toolbank.sources.mcp.account import Account, ServerError
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


@dataclass(frozen=True)
class Listing:
    """What a server calls itself, "" where it doesn't say, and its tools as it wrote them."""

    name: str
    tools: list[Any]


async def list_tools(server: Server, config: McpSource) -> Listing:
    """Ask a server for its tools, all pages of them.

    Raises:
        ServerError: it can't be reached or started, ends, is too late, says too much, or doesn't
            keep to the protocol. The reason holds no secret.
    """
    account = Account()
    try:
        with anyio.fail_after(config.timeout_s):
            return await _list_tools(_open(server, config, account), account)
    except Exception as error:
        raise explain(error, server, config.timeout_s, account) from None


@contextmanager
def quiet_logs() -> Iterator[None]:
    """Keep what the libraries log to themselves: addresses and headers, and the messages of servers."""
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
    server: Server, config: McpSource, account: Account
) -> AbstractAsyncContextManager[Any]:
    if server.command:
        return start(server, account)
    return connect(
        server, account, config.timeout_s, private_addresses=config.private_addresses
    )


async def _list_tools(
    transport: AbstractAsyncContextManager[Any], account: Account
) -> Listing:
    about = Implementation(name="toolbank", version=__version__)
    async with Client(transport, client_info=about) as client:
        name = client.server_info.name if client.server_info else ""
        tools: list[Any] = []
        seen: set[str] = set()
        names: set[str] = set()
        idle = 0
        cursor: str | None = None
        while True:
            account.tools = None
            try:
                page = await client.list_tools(cursor=cursor, cache_mode="bypass")
            except MCPError as error:
                # By HTTP the SDK says so of a page that is not there, too.
                if error.code == METHOD_NOT_FOUND and account.status in (0, 200):
                    return Listing(name, tools)
                raise
            if not isinstance(account.tools, list):
                raise ServerError("the tools that it lists are no list")
            tools += account.tools
            new = {t["name"] for t in account.tools if _is_named(t)} - names
            names |= new
            idle = 0 if new else idle + 1
            cursor = page.next_cursor
            if not cursor:
                return Listing(name, tools)
            if cursor in seen:
                raise ServerError(
                    "it gives the same page again and again (its cursor repeats)"
                )
            seen.add(cursor)
            if idle > _MAX_IDLE_PAGES:
                raise ServerError("it gives pages for ever, and nothing new in them")
            if len(tools) > _MAX_TOOLS:
                raise ServerError(f"it lists more than {_MAX_TOOLS:,} tools")
            if len(seen) >= _MAX_PAGES:
                raise ServerError(f"it gives more than {_MAX_PAGES:,} pages of tools")
            if len(cursor) > _MAX_CURSOR:
                raise ServerError("the cursor of its next page is too long")


def _is_named(tool: Any) -> bool:
    return isinstance(tool, dict) and isinstance(tool.get("name"), str)
