"""Why a server gave no tools, in words for people, and without anything secret."""

from __future__ import annotations

from urllib.parse import urlsplit

import anyio
import httpx2
from mcp import MCPError
from mcp.types import PARSE_ERROR
from pydantic import ValidationError

from toolbank.sources.mcp.connection import Connection, ServerError
from toolbank.sources.mcp.server import Server
from toolbank.system.terminal import one_line

_SHOWN = 300


def explain(
    error: Exception, server: Server, seconds: float, connection: Connection
) -> ServerError:
    """The error for people that an error of talking to a server comes to.

    `seconds` is how long it was waited for.
    """
    cause = _find_cause(error)
    if isinstance(cause, ServerError):
        return cause
    if connection.fault:
        return ServerError(connection.fault)
    if isinstance(cause, TimeoutError | httpx2.TimeoutException):
        late = f"it gave no list of tools within {seconds:g} seconds (timeout_s)"
        return ServerError(f"{late}{_quote(server, connection)}", may_pass=True)
    if server.url:
        return _explain_http(cause, server, connection)
    return _explain_process(cause, server, connection)


def _find_cause(error: BaseException) -> BaseException:
    """The error that the others of a group came of."""
    while isinstance(error, BaseExceptionGroup):
        leaves = error.exceptions
        error = next((e for e in leaves if not _is_sequel(e)), leaves[0])
    return error


def _is_sequel(error: BaseException) -> bool:
    return isinstance(error, anyio.BrokenResourceError | anyio.ClosedResourceError)


def _explain_process(
    error: BaseException, server: Server, connection: Connection
) -> ServerError:
    said = _quote(server, connection)
    if not connection.has_ended:
        return ServerError(f"{_describe_answer(error, server)}{said}")
    code = connection.exit_code
    ended = f"it ended (exit code {code})" if code is not None else "it ended"
    if code is not None and code < 0:
        ended = f"it was killed (signal {-code})"
    return ServerError(f"{ended} before it had listed its tools{said}", may_pass=True)


def _quote(server: Server, connection: Connection) -> str:
    """What a server has said beside the protocol."""
    words = connection.stderr_tail(server.hide)
    said = f"; the last that it said on stderr: {words}" if words else ""
    if connection.invalid_line:
        line = server.hide(connection.invalid_line.decode("utf-8", "replace"))
        said += f"; on stdout it said what is no message: {one_line(line, 100)}"
    return said


def _describe_answer(error: BaseException, server: Server) -> str:
    if isinstance(error, MCPError) and error.code != PARSE_ERROR:
        said = one_line(server.hide(error.message), _SHOWN)
        return f"it answers with an error: {said} (code {error.code})"
    return "it answers outside the protocol"


def _explain_http(
    error: BaseException, server: Server, connection: Connection
) -> ServerError:
    status, kind = connection.status, connection.content_type.partition(";")[0].strip()
    where = (
        "give one by token_env or headers"
        if server.is_open
        else "put one into its `headers` in that file"
    )
    may_pass = False
    if status == 401:
        reason = f"it wants a token (HTTP status 401); {where}"
    elif status == 403:
        reason = f"it refuses (HTTP status 403); if it wants a token, {where}"
    elif 300 <= status < 400:
        reason = (
            f"it leads to another address{_host(server.hide(connection.location))}; headers go to "
            "no other, so give that address if it is meant"
        )
    elif status in (404, 405, 406, 410):
        reason = f"there is no MCP server at that address (HTTP status {status})"
    elif status >= 400:
        reason, may_pass = f"it answers with HTTP status {status}", status >= 429
    elif status and kind not in ("application/json", "text/event-stream", ""):
        said = one_line(server.hide(kind), 50)
        reason = f"it answers {said}, which no MCP server does; is that its address?"
    elif isinstance(error, ValidationError | MCPError):
        reason = _describe_answer(error, server)
    elif isinstance(error, httpx2.ConnectError):
        reason, may_pass = "it can't be reached", True
    else:
        reason, may_pass = "the connection broke off", True
    return ServerError(reason, may_pass=may_pass)


def _host(location: str) -> str:
    try:
        host = urlsplit(location).hostname
    except ValueError:
        host = None
    return f", on {one_line(host, 100)}" if host else ""
