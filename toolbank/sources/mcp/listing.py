"""The tools that one server lists, page by page."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import httpx2
from mcp import Client, MCPError
from mcp.types import METHOD_NOT_FOUND, PARSE_ERROR, Implementation
from pydantic import ValidationError

from toolbank.sources.mcp.account import Account, ServerError
from toolbank.sources.mcp.http import connect
from toolbank.sources.mcp.server import Server
from toolbank.sources.mcp.source import McpSource
from toolbank.sources.mcp.stdio import start
from toolbank.system.terminal import one_line
from toolbank.system.version import __version__

_MAX_PAGES = 2_000
# So many in a row that bring no tool of another name: it goes on for ever.
_MAX_IDLE_PAGES = 20
_MAX_TOOLS = 200_000
_MAX_CURSOR = 65_536
_SHOWN = 300
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
    except (Exception, ExceptionGroup) as error:
        reason, may_pass = _explain(_find_cause(error), server, config, account)
        raise ServerError(reason, may_pass=may_pass) from None


@contextmanager
def quiet_logs() -> Iterator[None]:
    """Keep what the libraries log to themselves: addresses and headers, and the messages of servers."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [(logger.propagate, logger.disabled, logger.level) for logger in loggers]
    silent = logging.NullHandler()
    for logger in loggers:
        logger.propagate = False
        logger.addHandler(silent)
    try:
        yield
    finally:
        for logger, (propagates, _, _) in zip(loggers, before, strict=True):
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
                if error.code == METHOD_NOT_FOUND and not seen and not account.status:
                    return Listing(name, [])
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


def _find_cause(error: BaseException) -> BaseException:
    """The error that the others of a group came of."""
    while isinstance(error, BaseExceptionGroup):
        leaves = error.exceptions
        error = next((e for e in leaves if not _is_sequel(e)), leaves[0])
    return error


def _is_sequel(error: BaseException) -> bool:
    return isinstance(error, anyio.BrokenResourceError | anyio.ClosedResourceError)


def _explain(
    error: BaseException, server: Server, config: McpSource, account: Account
) -> tuple[str, bool]:
    """Why a server gave no tools, and whether that may pass."""
    if isinstance(error, ServerError):
        return str(error), error.may_pass
    if account.fault:
        return account.fault, False
    if server.url:
        return _explain_http(error, server, account)
    return _explain_process(error, server, config, account)


def _explain_process(
    error: BaseException, server: Server, config: McpSource, account: Account
) -> tuple[str, bool]:
    words = account.last_words(server.hide)
    said = f"; the last that it said on stderr: {words}" if words else ""
    if account.strange:
        line = server.hide(account.strange.decode("utf-8", "replace"))
        said += f"; on stdout it said what is no message: {one_line(line, 100)}"
    if isinstance(error, TimeoutError):
        return (
            f"it gave no list of tools within {config.timeout_s:g} seconds (timeout_s){said}",
            True,
        )
    if not account.has_ended:
        return f"{_describe_answer(error, server)}{said}", False
    code = account.exit_code
    ended = f"it ended (exit code {code})" if code is not None else "it ended"
    if code is not None and code < 0:
        ended = f"it was killed (signal {-code})"
    return f"{ended} before it had listed its tools{said}", True


def _describe_answer(error: BaseException, server: Server) -> str:
    if isinstance(error, MCPError) and error.code != PARSE_ERROR:
        said = one_line(server.hide(error.message), _SHOWN)
        return f"it answers with an error: {said} (code {error.code})"
    return "it answers outside the protocol"


def _explain_http(
    error: BaseException, server: Server, account: Account
) -> tuple[str, bool]:
    status, kind = account.status, account.content_type.partition(";")[0].strip()
    where = (
        "give one by token_env or headers"
        if server.is_open
        else "put one into its `headers` in that file"
    )
    if status == 401:
        return f"it wants a token (HTTP status 401); {where}", False
    if status == 403:
        return f"it refuses (HTTP status 403); if it wants a token, {where}", False
    if 300 <= status < 400:
        to = httpx2.URL(account.location).host if account.location else ""
        return (
            f"it leads to another address{to and f', on {to}'}; headers go to no other, so give "
            "that address if it is meant",
            False,
        )
    if status in (404, 405, 406, 410):
        return f"there is no MCP server at that address (HTTP status {status})", False
    if status >= 400:
        return f"it answers with HTTP status {status}", status >= 500 or status == 429
    if status and kind not in ("application/json", "text/event-stream", ""):
        return (
            f"it answers {kind[:50]}, which no MCP server does; is that its address?",
            False,
        )
    if isinstance(error, TimeoutError | httpx2.TimeoutException):
        return "it gave no list of tools in time (timeout_s)", True
    if isinstance(error, ValidationError | MCPError):
        return _describe_answer(error, server), False
    if isinstance(error, httpx2.ConnectError):
        return "it can't be reached", True
    return "the connection broke off", True
