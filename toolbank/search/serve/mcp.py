"""Serve a packed finder over the Model Context Protocol."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import CallToolResult
from mcp.types import Tool as MCPTool
from pydantic import SkipValidation
from pydantic.json_schema import SkipJsonSchema
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolbank.bank.records import Tool
from toolbank.search.calls import CallError
from toolbank.search.finder import Finder
from toolbank.search.serve.messages import (
    MOST_CALLS,
    HitCount,
    MinScore,
    QueryText,
    RefusalError,
    SearchParameters,
    check_content,
    require_json,
)
from toolbank.search.serve.reach import describe_reach
from toolbank.search.serve.searches import Metrics, Searches
from toolbank.system.terminal import one_line
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.search.calls.caller import ToolCaller


_MOST_THERE = 4 * MOST_CALLS
_LONGEST_NAME = 60


class CallQueue:
    """Limits the calls of a caller that run or wait at the same time, and logs them.

    `log` gets the client, the tool, the outcome and the seconds; never arguments or answers.
    """

    def __init__(
        self, caller: ToolCaller, log: Callable[[str, str, str, float], None]
    ) -> None:
        self.caller, self.log = caller, log
        self._turns = asyncio.Semaphore(MOST_CALLS)
        self._there = 0

    async def run(
        self, tool: Tool, arguments: Mapping[str, Any], context: Context[Any, Any]
    ) -> CallToolResult:
        """Call a tool; gives its answer, which may be an error of the tool. Logs the call.

        Raises:
            ToolError: too many calls wait, it may not be called, its arguments don't fit, or it
                failed.
        """
        if self._there >= _MOST_THERE:
            raise ToolError("Too many calls at once. Try again.")
        self._there += 1
        began, outcome = time.monotonic(), "aborted"
        try:
            async with self._turns:
                answer = await self.caller.call(
                    tool, arguments, context.report_progress
                )
            outcome = "failed" if answer.is_error else "answered"
            return answer
        except CallError as error:
            outcome = "failed"
            raise ToolError(str(error)) from error
        finally:
            self._there -= 1
            self.log(_who(context), tool.name, outcome, time.monotonic() - began)


def _who(context: Context[Any, Any]) -> str:
    """The client: its address, and the name that it gives itself."""
    request, said = context.request_context.request, context.session.client_params
    peer = getattr(request, "client", None)
    name = one_line(said.client_info.name, _LONGEST_NAME) if said else ""
    return " ".join(filter(None, (peer and peer.host, name))) or "unknown"


class _McpSearch(SearchParameters):
    query: QueryText


def create_mcp(
    searches: Searches, finder: str, calls: CallQueue | None = None
) -> MCPServer[Any]:
    """Make a server with `search_tools`, `describe_tool` and, with `calls`, `call_tool`.

    It always uses the current version of the named finder. With a log, a called tool is logged as
    chosen.
    """

    def find() -> Finder:
        return searches.shelf[finder]

    with _keep_logging():
        server = _McpServer(
            "toolbank",
            version=__version__,
            instructions="Finds the right ones of many tools. Search first, by what is to be done; "
            "then read the schema of a tool that fits."
            + (" Call it by call_tool." if calls else ""),
            log_level="ERROR",
        )
    server.find = find

    # The SDK would convert values such as "5"; `check_content` refuses them.
    async def search_tools(
        query: Annotated[QueryText, SkipValidation],
        k: Annotated[HitCount, SkipValidation] = 5,
        min_score: Annotated[MinScore | SkipJsonSchema[None], SkipValidation] = None,
    ) -> dict[str, Any]:
        try:
            asked = check_content(
                _McpSearch, {"query": query, "k": k, "min_score": min_score}
            )
            [found] = await searches.run(
                finder, [asked.query], asked, lambda content: content
            )
        except RefusalError as refusal:
            raise ToolError(refusal.message) from refusal
        return found

    def get_tool(name: str) -> Tool:
        tool = find().describe(name)
        if tool is None:
            raise ToolError(
                f"There is no tool {name[:200]!r}. search_tools gives the names."
            )
        return tool

    def describe_tool(name: str) -> dict[str, Any]:
        tool = get_tool(name)
        described: dict[str, Any] = {
            "name": tool.name,
            "description": tool.full_description,
            "parameters": tool.parameters,
        }
        more = {
            "signature": tool.signature,
            "deprecated": tool.deprecated,
            "returns": tool.output_schema,
            "url": tool.url,
        }
        described |= {key: value for key, value in more.items() if value}
        if calls is not None:
            described["can_be_called"] = calls.caller.lets(tool)
        return described

    server.add_tool(search_tools, structured_output=True)
    server.add_tool(
        describe_tool,
        description="The description and the parameters (JSON Schema) of a tool, by its name.",
        structured_output=True,
    )
    if calls is None:
        return server
    described = (
        "Call a tool that search_tools has found, with arguments that fit its parameters; "
        "gives what it answers."
    )

    async def call(
        name: str, context: Context[Any, Any], arguments: dict[str, Any] | None = None
    ) -> CallToolResult:
        return await calls.run(get_tool(name), arguments or {}, context)

    async def call_found(
        name: str,
        context: Context[Any, Any],
        arguments: dict[str, Any] | None = None,
        search: str | None = None,
    ) -> CallToolResult:
        tool = get_tool(name)
        answer = await calls.run(tool, arguments or {}, context)
        if searches.log is not None and search is not None and not answer.is_error:
            searches.log.chose(finder, search, tool.name)
        return answer

    if searches.log is not None:
        described += " `search` is the `id` of the answer that it was found in."
    server.add_tool(
        call if searches.log is None else call_found,
        "call_tool",
        description=described,
        structured_output=False,
    )
    return server


@contextmanager
def _keep_logging() -> Iterator[None]:
    """Undo the SDK's changes to the logging of the process.

    Its handler imports a library for the first traceback. If no more files can be opened, that
    fails, and ends the process.
    """
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("mcp").setLevel(logging.ERROR)
    # The client logs a traceback for each invalid message of a server.
    for name in ("mcp.client", "client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


class _McpServer(MCPServer[Any]):
    """Describes its search by the current version of the finder."""

    find: Callable[[], Finder]

    async def list_tools(self) -> list[MCPTool]:
        """List the tools, with the current description of the search."""
        listed = await super().list_tools()
        return [
            tool.model_copy(update={"description": describe_search(self.find())})
            if tool.name == "search_tools"
            else tool
            for tool in listed
        ]


def describe_search(finder: Finder) -> str:
    """Describe the search tool: what it reaches, and what its scores say."""
    if next(iter(finder.retrievers)) in finder.calibrations:
        scores = (
            "`score` is how likely a tool is needed. `fits` false: probably none of the hits serves "
            "the request; say it in other words, or do without."
        )
    else:
        scores = "`score` only orders the hits: the best may not fit, either."
    pinned = "".join(
        f"\nAlways at hand: {tool.name} ({tool.summary})" for tool in finder.pinned
    )
    said = (
        f"Find the tools that a request needs among {len(finder.tools):,}, best first. `query` "
        "says in plain words what is to be done, or is a tool's exact name. "
        f"{scores} Schemas are given by describe_tool."
    )
    return f"{said} {describe_reach(finder.tools)}{pinned}"


def create_mcp_apps(searches: Searches, caller: ToolCaller | None) -> list[Starlette]:
    """Make an app at /mcp for the first finder, and one under each finder's name."""
    # Host and Origin are checked for all routes alike.
    checked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    calls = CallQueue(caller, searches.log_call) if caller is not None else None
    names = searches.shelf.names
    apps = []
    for place, name in [("", names[0]), *((f"/{one}", one) for one in names)]:
        app = create_mcp(searches, name, calls).streamable_http_app(
            streamable_http_path=f"{place}/mcp",
            json_response=True,
            stateless_http=True,
            transport_security=checked,
        )
        # There are no sessions, so no other methods are needed.
        app.router.routes = [
            Route(path, _Counted(route.endpoint, searches.metrics), methods=["POST"])
            for route in app.routes
            if isinstance(route, Route)
            # A redirect behind a proxy with TLS would lead to http.
            for path in (route.path, f"{route.path}/")
        ]
        apps.append(app)
    return apps


class _Counted:
    """A route that only accepts JSON, and counts its responses."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.requests["/mcp", message["status"]] += 1
            await send(message)

        try:
            require_json(Headers(scope=scope))
            # Read here, so that errors of the body have the shape of all errors.
            body = await Request(scope, receive).body()
        except RefusalError as refusal:
            await refusal.response()(scope, receive, send_counted)
            return
        sent = False

        async def replay() -> Message:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, replay, send_counted)
