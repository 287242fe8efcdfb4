"""Send calls to MCP servers, over one session a server: a browser, a shell, a database stay open."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError
from mcp.types import CONNECTION_CLOSED, CallToolResult

from toolbank.search.calls import CallError, Target
from toolbank.search.calls.http import CALL_TIME, MOST_ANSWER, NOT_PUBLIC
from toolbank.sources.mcp.connection import MB, Connection, ServerError
from toolbank.system.http import PrivateAddressError
from toolbank.system.net import is_loopback

if TYPE_CHECKING:
    from mcp import Client
    from mcp.shared.dispatcher import ProgressFnT


_MOST_BYTES = 4 * MB
"""The maximum size of all messages of a call, in bytes."""
_MOST_VALUES = 20_000
"""The maximum number of JSON values in a call: they are parsed on the event loop."""
MOST_SESSIONS = 32
"""The maximum number of servers with an open session."""
IDLE_TIME = 900.0
"""Seconds without a call after which a session ends."""
_END_TIME = 5.0
"""Seconds that the end of a session may take."""
_LOOK = 1.0
"""Seconds between two looks whether a server has ended, or is idle."""
_MOST_SILENT = 3
"""Calls in a row that a server leaves without an answer until its session ends."""
_LONGEST_SAID = 2000
"""Characters of an error or of progress that are passed on."""


class McpSessions:
    """The sessions with MCP servers, one a target.

    A session begins with the first call. It ends when it was idle for `IDLE_TIME` seconds, when
    another server needs its place, or with the event loop. If its server has ended, the next call
    begins another one.
    """

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}
        # Of sessions that begin, go on or end.
        self._tasks: set[asyncio.Task[None]] = set()

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        target: Target,
        on_progress: ProgressFnT | None = None,
    ) -> CallToolResult:
        """Call a tool of an MCP server; gives its answer without the target's secrets.

        The answer may be an error of the tool (`is_error`). A call is sent again only if the server
        refused it because it does not know the session.

        Raises:
            CallError: the server can't be reached, does not answer in time, or violates the
                protocol or a limit; or too many servers are in use.
        """

        async def tell(
            progress: float, total: float | None, message: str | None
        ) -> None:
            if on_progress is not None:
                said = target.hide(message or "")[:_LONGEST_SAID]
                await on_progress(progress, total, said)

        try:
            try:
                result = await self._open(target).call(tool, arguments, tell)
            except _LostSessionError:
                result = await self._open(target).call(tool, arguments, tell)
        except _LostSessionError as error:
            raise CallError("The server refuses each session that it began.") from error
        except CallError as error:
            raise CallError(target.hide(str(error))[:_LONGEST_SAID]) from error
        return _check_answer(result, target)

    async def close(self) -> None:
        """End all sessions, and wait until their servers have ended."""
        for one in self._sessions.values():
            one.end()
        self._sessions.clear()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _open(self, target: Target) -> _Session:
        key = target.key
        for name, one in [*self._sessions.items()]:
            if not one.is_alive:
                one.end()
                del self._sessions[name]
        if key not in self._sessions:
            if len(self._sessions) >= MOST_SESSIONS:
                self._end_idlest()
            session = self._sessions[key] = _Session(target)
            self._tasks.add(session.task)
            session.task.add_done_callback(self._tasks.discard)
        return self._sessions[key]

    def _end_idlest(self) -> None:
        idle = {key: one for key, one in self._sessions.items() if not one.calls}
        if not idle:
            raise CallError(
                f"{MOST_SESSIONS} servers are in use at once. Try again when a call has ended."
            )
        key = min(idle, key=lambda one: idle[one].used)
        self._sessions.pop(key).end()


class _LostSessionError(Exception):
    """The server refused a call, since it does not know the session."""


class _Session:
    """A session with a server, in a task of its own, since the SDK ends it where it began."""

    def __init__(self, target: Target) -> None:
        self.calls, self.used = 0, time.monotonic()
        self._connection = Connection(largest=_MOST_BYTES)
        self._silent = 0
        self._ended = asyncio.Event()
        self._client: asyncio.Future[Client] = (
            asyncio.get_running_loop().create_future()
        )
        # A failure without a call that waits for it is no news.
        self._client.add_done_callback(lambda one: one.cancelled() or one.exception())
        self.task = asyncio.create_task(self._run(target))

    @property
    def is_alive(self) -> bool:
        """Whether a call can be sent."""
        return not (
            self._ended.is_set() or self._connection.fault or self._connection.has_ended
        )

    def end(self) -> None:
        """End the session; its calls fail."""
        self._ended.set()
        if not self._client.done():
            self._client.set_exception(ServerError("its session was ended"))
            self.task.cancel()

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        on_progress: ProgressFnT | None,
    ) -> CallToolResult:
        """Call a tool.

        Raises:
            CallError: there is no answer.
            _LostSessionError: the server does not know this session.
        """
        self.calls += 1
        connection = self._connection
        connection.most_bytes = connection.received + self.calls * _MOST_BYTES
        connection.most_values = connection.values + self.calls * _MOST_VALUES
        limit = asyncio.timeout(CALL_TIME)
        try:
            async with limit:
                client = await asyncio.shield(self._client)
                result = await client.call_tool(
                    tool, dict(arguments), progress_callback=on_progress
                )
        # The client raises many kinds of exceptions, in groups.
        except Exception as error:
            self._settle(error, is_late=limit.expired())
            said = _explain(error, connection, is_late=limit.expired())
            raise CallError(said) from error
        finally:
            self.calls -= 1
            self.used = time.monotonic()
        self._silent = 0
        return result

    def _settle(self, error: Exception, *, is_late: bool) -> None:
        """Decide after a failure whether the session goes on."""
        if is_late:
            self._silent += 1
            if self._silent >= _MOST_SILENT or not self._client.done():
                self.end()
        elif not isinstance(error, MCPError) or _is_closed(error):
            self.end()
        elif self._connection.status == 404:
            self.end()
            raise _LostSessionError from error

    async def _run(self, target: Target) -> None:
        try:
            async with (
                asyncio.timeout(None) as limit,
                _open_transport(target, self._connection) as transport,
                _connect(transport) as client,
            ):
                self._client.set_result(client)
                await self._wait()
                limit.reschedule(asyncio.get_running_loop().time() + _END_TIME)
        except Exception as error:
            # Of a session that had begun, the calls tell what is wrong.
            if not self._client.done():
                self._client.set_exception(error)

    async def _wait(self) -> None:
        """Wait until the session is over."""
        while self.is_alive and (
            self.calls or time.monotonic() - self.used < IDLE_TIME
        ):
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK):
                    await self._ended.wait()
        self.end()


def _check_answer(result: CallToolResult, target: Target) -> CallToolResult:
    """Bound the texts of an answer, and hide the target's secrets in it."""
    content = [part.model_dump(mode="json", by_alias=True) for part in result.content]
    answer = {"content": content, "structuredContent": result.structured_content}
    # An embedded resource has its text one level lower.
    texts = [part.get("resource", part).get("text") or "" for part in content]
    try:
        size = max(sum(map(len, texts)), len(json.dumps(result.structured_content)))
        checked = CallToolResult.model_validate(target.hide_in(answer))
    except (ValueError, RecursionError) as error:
        raise CallError("The answer cannot be written as JSON.") from error
    if size > MOST_ANSWER:
        raise CallError(f"The answer is larger than {MOST_ANSWER:,} characters.")
    return checked.model_copy(update={"is_error": result.is_error})


def _explain(error: BaseException, connection: Connection, *, is_late: bool) -> str:
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
    if connection.has_ended:
        return "The server has ended. The next call starts it again, without what it had open."
    if isinstance(error, MCPError) and not _is_closed(error):
        return f"The server refuses the call: {error.message}"
    return f"The server cannot be reached ({type(error).__name__})."


def _is_closed(error: MCPError) -> bool:
    """Whether the SDK says that the connection is closed: servers use its code for errors, too."""
    return error.code == CONNECTION_CLOSED and error.message == "Connection closed"


@asynccontextmanager
async def _open_transport(target: Target, connection: Connection) -> AsyncIterator[Any]:
    server = target.make_server()
    if server.command:
        from toolbank.sources.mcp.stdio import start

        yield start(server, connection)
        return
    from toolbank.sources.mcp.http import connect

    # The user's own file may name this machine, as for the client it was written for.
    is_own = target.entry is not None and is_loopback(server.url)
    yield connect(server, connection, CALL_TIME, guards=not (target.private or is_own))


@asynccontextmanager
async def _connect(transport: Any) -> AsyncIterator[Client]:
    """Connect without checking answers against the server's output schemas.

    The SDK would check them on the event loop, where a regular expression may never end. Answers are
    only passed on.
    """
    from mcp import Client

    async def accept(name: str, result: Any) -> None:
        pass

    async with Client(transport) as client:
        client.session.validate_tool_result = accept  # type: ignore[method-assign]
        yield client
