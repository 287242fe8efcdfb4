"""Read the tools of all servers of a source, page by page."""

from __future__ import annotations

import inspect
import itertools
import json
import logging
import socket
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
from mcp import Client, MCPError
from mcp.types import METHOD_NOT_FOUND, PARSE_ERROR, Implementation
from pydantic import ValidationError
from tqdm import tqdm

from toolbank.bank.function_reader import parse_function
from toolbank.bank.records import McpCall
from toolbank.sources.kind import ToolCollection
from toolbank.sources.mcp.client_config import ClientConfig
from toolbank.sources.mcp.connection import Connection, ServerError
from toolbank.sources.mcp.http import connect
from toolbank.sources.mcp.settings import McpSource, Server
from toolbank.sources.mcp.stdio import start
from toolbank.sources.tool_list import ToolList
from toolbank.system import aio
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.http import PrivateAddressError
from toolbank.system.net import is_loopback
from toolbank.system.numbers import count
from toolbank.system.terminal import one_line
from toolbank.system.text import find_control_character
from toolbank.system.version import __version__

_SHOWN = 300


def explain(
    error: Exception, server: Server, seconds: float, connection: Connection
) -> ServerError:
    """Explain an error of a connection for the user; `seconds` is the time limit."""
    cause = _find_cause(error)
    if isinstance(cause, ServerError):
        return cause
    if connection.fault:
        return ServerError(connection.fault)
    if isinstance(cause, PrivateAddressError):
        return ServerError(
            f"it is at a private address, {cause.address}; to allow it, set "
            "`private_addresses: true`"
        )
    if isinstance(cause, socket.gaierror):
        return ServerError("its host was not found", may_pass=True)
    if isinstance(cause, TimeoutError | httpx2.TimeoutException):
        late = f"it did not list its tools within {seconds:g} seconds (timeout_s)"
        return ServerError(f"{late}{_quote(server, connection)}", may_pass=True)
    if server.url:
        return _explain_http(cause, server, connection)
    said = _quote(server, connection)
    if not connection.has_ended:
        return ServerError(f"{_describe_answer(cause, server)}{said}")
    code = connection.exit_code
    ended = f"it ended (exit code {code})"
    if code is not None and code < 0:
        ended = f"it was killed (signal {-code})"
    return ServerError(f"{ended} before it listed its tools{said}", may_pass=True)


def _find_cause(error: BaseException) -> BaseException:
    """Find the error of a group that caused the others."""
    sequels = (anyio.BrokenResourceError, anyio.ClosedResourceError)
    while isinstance(error, BaseExceptionGroup):
        leaves = error.exceptions
        error = next((e for e in leaves if not isinstance(e, sequels)), leaves[0])
    return error


def _quote(server: Server, connection: Connection) -> str:
    """Quote what a server printed outside of the protocol."""
    words = connection.stderr_tail(server.hide)
    said = f"; its last lines on stderr: {words}" if words else ""
    if connection.invalid_line:
        line = server.quote(connection.invalid_line.decode("utf-8", "replace"), 100)
        said += f"; a line on stdout is not a message: {line}"
    return said


def _describe_answer(error: BaseException, server: Server) -> str:
    if isinstance(error, MCPError) and error.code != PARSE_ERROR:
        said = server.quote(error.message, _SHOWN)
        return f"it returned an error: {said} (code {error.code})"
    return "its response violates the protocol"


def _explain_http(
    error: BaseException, server: Server, connection: Connection
) -> ServerError:
    status, kind = connection.status, connection.content_type.partition(";")[0].strip()
    may_pass = status >= 429
    if status in (401, 403):
        in_file = "add it to its `headers` in that file"
        where = "set `token_env` or `headers`" if server.is_open else in_file
        reason = (
            f"it refuses access (HTTP status {status}); if it requires a token, {where}"
        )
    elif 300 <= status < 400:
        place = _host(server.hide(connection.location))
        reason = f"it redirects to another address{place}; give that address if it is correct"
    elif status in (404, 405, 406, 410):
        reason = f"there is no MCP server at that address (HTTP status {status})"
    elif status >= 400:
        reason = f"it returned HTTP status {status}"
    elif status and kind not in ("application/json", "text/event-stream", ""):
        reason = f"it returned {server.quote(kind, 50)}, which no MCP server does; check the address"
    elif isinstance(error, ValidationError | MCPError):
        reason = _describe_answer(error, server)
    elif isinstance(error, httpx2.ConnectError):
        reason, may_pass = "it cannot be reached", True
    else:
        reason, may_pass = "the connection was lost", True
    return ServerError(reason, may_pass=may_pass)


def _host(location: str) -> str:
    """Name the host alone: what follows it, or stands before it, may be a secret."""
    try:
        host = urlsplit(location).hostname
    except ValueError:
        host = None
    return f", on {one_line(host, 100)}" if host else ""


# Pages in a row without a new name.
_MAX_IDLE_PAGES = 20
_MAX_TOOLS = 200_000
_LOGGERS = ("mcp", "client", "httpx2", "httpcore2")


@dataclass
class ToolListing:
    """The tools of a server as it wrote them, without secrets.

    Attributes:
        name: the server's name for itself, or "".
        tools: the entries.
        trouble: why reading stopped before the end, or "".
        hidden: the number of tools in which a secret was replaced.
        unnamed: the names of tools that are not listed because a secret was in the name.
    """

    name: str
    tools: list[Any] = field(default_factory=list)
    trouble: str = ""
    hidden: int = 0
    unnamed: list[str] = field(default_factory=list)


async def list_tools(server: Server, config: McpSource) -> ToolListing:
    """List all tools of a server.

    Raises:
        ServerError: it can't be reached or started, ends, is too slow, sends too much, or violates
            the protocol. The message contains no secret.
    """
    connection = Connection()
    if server.command:
        transport = start(server, connection)
    else:
        guards = not (is_loopback(server.url) or config.private_addresses)
        transport = connect(server, connection, config.timeout_s, guards=guards)
    try:
        with anyio.fail_after(config.timeout_s):
            listing = await _list_tools(transport, connection)
    except Exception as error:
        raise explain(error, server, config.timeout_s, connection) from None
    return _hide_secrets(listing, server)


def _hide_secrets(listing: ToolListing, server: Server) -> ToolListing:
    name = server.hide(listing.name)
    hidden = ToolListing(name if name == listing.name else "", trouble=listing.trouble)
    for tool in listing.tools:
        shown = server.hide_in(tool)
        if _is_named(tool) and shown.get("name") != tool["name"]:
            hidden.unnamed.append(server.hide(tool["name"]))
        else:
            hidden.tools.append(shown)
            hidden.hidden += shown != tool
    return hidden


@contextmanager
def silence_loggers() -> Iterator[None]:
    """Silence the libraries: they log addresses, headers and messages of servers."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [logger.propagate for logger in loggers]
    # Their children may have levels of their own, so it is not enough to set these.
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


async def _list_tools(
    transport: AbstractAsyncContextManager[Any], connection: Connection
) -> ToolListing:
    about = Implementation(name="toolbank", version=__version__)
    async with Client(transport, client_info=about) as client:
        listing = ToolListing(client.server_info.name if client.server_info else "")
        tools = listing.tools
        seen: set[str] = set()
        names: set[str] = set()
        # The number of tools up to the last page with a new name.
        useful = idle = 0
        cursor: str | None = None
        while True:
            connection.tools = None
            try:
                page = await client.list_tools(cursor=cursor, cache_mode="bypass")
            except MCPError as error:
                # By HTTP, the SDK raises the same error for a missing page.
                if error.code == METHOD_NOT_FOUND and connection.status in (0, 200):
                    return listing
                raise
            if not isinstance(connection.tools, list):
                raise ServerError("its tools are not a list")
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
    """Say why no further page is requested, or ""."""
    if cursor in seen:
        return "it returns the same page again (its cursor repeats)"
    if idle > _MAX_IDLE_PAGES:
        return "it returns endless pages without new tools"
    return f"it lists more than {_MAX_TOOLS:,} tools" if tools > _MAX_TOOLS else ""


def _is_named(tool: Any) -> bool:
    return isinstance(tool, dict) and isinstance(tool.get("name"), str)


_KINDS: dict[str, type] = {"title": str, "description": str, "annotations": dict}


def read_tools(
    entries: Sequence[Any], server: str, source: str, found: ToolList
) -> None:
    """Add the tools of a server to a list, as `server/tool`, in its order."""
    for entry in entries:
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not name.strip():
            found.left_out.add("it has no name", f"{server}/")
        elif sign := find_control_character(name):
            reason = "its name has a sign in it that no name has"
            found.left_out.add(reason, f"{server}/{sign}")
        elif not _is_writable(entry):
            reason = "what is said of it is no JSON in UTF-8"
            found.left_out.add(reason, f"{server}/{name}")
        else:
            said: dict[str, Any] = {
                k: v for k, v in entry.items() if isinstance(v, _KINDS.get(k, ()))
            }
            if "description" in said:
                # Servers in Python send the docstring of a function with its indentation.
                said["description"] = inspect.cleandoc(said["description"])
            here = {
                "name": f"{server}/{name}",
                "source": source,
                "call": McpCall(source=server, tool=name),
            }
            tool = parse_function({"name": name, **said}).model_copy(update=here)
            schemas = entry.get("inputSchema"), entry.get("outputSchema")
            found.add(tool, *schemas, tool.name)


def _is_writable(entry: dict[str, Any]) -> bool:
    try:
        json.dumps(entry, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return True


_AT_ONCE = 8
_LONGEST_NAME = 100
_UNNAMED = "its name has something in it that may be secret"


@dataclass
class ServerResults:
    """The listings and errors of servers by name, and the lines on what is skipped in the file."""

    listings: dict[str, ToolListing] = field(default_factory=dict)
    failed: dict[str, ServerError] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)


def read_servers(config: McpSource, found: ClientConfig) -> ToolCollection:
    """Read the tools of servers, at most eight at once.

    Raises:
        InputError: no server gave a tool.
        ToolbankError: no server gave a tool; trying again may help.
    """
    wrong = {name: ServerError(reason) for name, reason in found.wrong.items()}
    skipped = [f"{name}: {reason}" for name, reason in found.skipped.items()]
    read = ServerResults(failed=wrong, skipped=[*skipped, *found.notes])
    with silence_loggers():
        aio.run(_ask(config, found.servers, read))
    if not read.listings:
        raise _refuse(config, read)
    return _collect(config, read)


async def _ask(
    config: McpSource, servers: Sequence[Server], read: ServerResults
) -> None:
    limit = anyio.CapacityLimiter(_AT_ONCE)
    pending: list[str] = []

    async def ask(server: Server) -> None:
        async with limit:
            pending.append(server.name or config.label)
            try:
                listing = await list_tools(server, config)
                # Its own name as a prefix has no line breaks and no slashes.
                own = one_line(listing.name, _LONGEST_NAME)
                own = own or config.label.removeprefix("mcp:")
                read.listings[server.name or own.replace("/", "-")] = listing
            except ServerError as error:
                read.failed[server.name] = error
            pending.remove(server.name or config.label)

    with tqdm(
        bar_format="{desc}", dynamic_ncols=True, leave=False, disable=None
    ) as bar:
        async with anyio.create_task_group() as tasks:
            if not bar.disable:
                tasks.start_soon(_show_progress, bar, pending, read, len(servers))
            async with anyio.create_task_group() as asking:
                for server in servers:
                    asking.start_soon(ask, server)
            tasks.cancel_scope.cancel()


async def _show_progress(
    bar: tqdm[Any], pending: Sequence[str], read: ServerResults, total: int
) -> None:
    """Show once a second which servers have not answered."""
    for seconds in itertools.count(1):
        await anyio.sleep(1)
        done = len(read.listings) + len(read.failed)
        many = f"{done:,} of {total:,} servers; " if total > 1 else ""
        # The last columns are for the cursor and ^C.
        width = bar.format_dict["ncols"] - 3
        said = f"{many}{seconds} s, waiting for {', '.join(pending)}"
        bar.set_description_str(one_line(said, width))


def _collect(config: McpSource, read: ServerResults) -> ToolCollection:
    found = ToolList()
    problems = list(_describe_failed(config, read))
    notes = [f"{config.label}: {line}" for line in read.skipped]
    for name, listing in sorted(read.listings.items()):
        source = f"mcp:{name}" if config.config is not None else config.label
        before = len(found.tools)
        read_tools(listing.tools, name, source, found)
        for hidden in listing.unnamed:
            found.left_out.add(_UNNAMED, f"{name}/{hidden}")
        here, read_so_far = f"{config.label}: {name}", len(found.tools) - before
        if listing.trouble:
            problems.append(f"{here}: {listing.trouble}; read so far: {read_so_far:,}")
        elif not read_so_far:
            notes.append(f"{here}: it lists no tools")
        if listing.hidden:
            notes.append(
                f"{here}: *** replaces possible secrets of the server in "
                f"{count(listing.hidden, 'tool')}"
            )
    problems += found.left_out.lines(config.label)
    if not found.tools and not read.failed:
        empty = f"{config.label}: the server lists no tools. Check that it is the right server"
        raise InputError(f"sources: {next(iter(problems), empty)}.")
    return ToolCollection(
        tuple(found.tools[name] for name in sorted(found.tools)),
        {
            "source": config.label,
            "servers": {n: len(read.listings[n].tools) for n in sorted(read.listings)},
            **found.left_out.as_info(),
        },
        problems=tuple(problems),
        notes=(*notes, *found.describe_repairs(config.label)),
        complete=not read.failed,
        unread=() if config.config is None else tuple(f"mcp:{n}" for n in read.failed),
        check=found.check,
    )


def _refuse(config: McpSource, read: ServerResults) -> ToolbankError:
    if not read.failed:
        return InputError(
            f"{config.config}: all servers in it are disabled, or a part of the client "
            f"({'; '.join(read.skipped)}). Enable one there, or name it in `servers`."
        )
    may_pass = any(error.may_pass for error in read.failed.values())
    kind = ToolbankError if may_pass else InputError
    lines = "\n".join(_describe_failed(config, read))
    if config.config is not None:
        hint = f"Correct its entry in {config.config}, or choose others with `servers`."
    elif config.url is not None:
        hint = "Check `url`, and that the server is running."
    else:
        hint = "Start it by hand to see the error."
    return kind(f"sources: {lines}. {hint}")


def _describe_failed(config: McpSource, read: ServerResults) -> Iterator[str]:
    for name, error in sorted(read.failed.items()):
        server = f"{name}: " if name and config.config is not None else ""
        yield f"{config.label}: {server}{error}"
