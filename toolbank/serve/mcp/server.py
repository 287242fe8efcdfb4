"""The tools by which an agent finds tools, and calls them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import Tool as MCPTool
from pydantic import WithJsonSchema

from toolbank.bank.records import Tool
from toolbank.packed.finder import PackedFinder
from toolbank.serve.answers import Refusal
from toolbank.serve.asked import read_body
from toolbank.serve.feedback import FeedbackLog
from toolbank.serve.mcp.calls import Calls
from toolbank.serve.searches import Searches
from toolbank.serve.settings import MOST_HITS, MOST_QUERY
from toolbank.system.version import __version__

# Told in the schema, and checked by `read_body`, which says what is wrong in words.
_Text = Annotated[Any, WithJsonSchema({"type": "string", "maxLength": MOST_QUERY})]
_Whole = Annotated[
    Any, WithJsonSchema({"type": "integer", "minimum": 1, "maximum": MOST_HITS})
]
_Share = Annotated[Any, WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1})]


def create_mcp(
    searches: Searches, name: str, calls: Calls | None = None
) -> MCPServer[Any]:
    """A server with `search_tools`, `describe_tool` and, with calls, `call_tool`.

    It searches the finder of a name, in the version that counts at the time.
    """

    def find() -> PackedFinder:
        return searches.shelf[name]

    with _keep_logging():
        server = _Server(
            "toolbank",
            version=__version__,
            instructions="Finds the right ones of many tools. Search first, by what is to be done; "
            "then read the schema of a tool that fits."
            + (" Call it by call_tool." if calls else ""),
            log_level="ERROR",
        )
    server.find = find

    async def search_tools(
        query: _Text, k: _Whole = 5, min_score: _Share = None
    ) -> dict[str, Any]:
        try:
            asked = read_body({"queries": [query], "k": k, "min_score": min_score})
            [found] = await searches.run(name, asked, lambda content: content)
        except Refusal as refusal:
            raise ToolError(refusal.message) from refusal
        return found

    def describe_tool(name: str) -> dict[str, Any]:
        tool = _find(find(), name)
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
    if calls is not None:
        _add_call(server, calls, find, searches.log, name)
    return server


@contextmanager
def _keep_logging() -> Iterator[None]:
    """Undo what the SDK does to the logging of the whole process.

    Its handler prints tracebacks by a library that it loads with the first one, which fails where
    files can't be opened, and then ends the process.
    """
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("mcp").setLevel(logging.ERROR)
    # Its client logs a traceback for each message of a called server that it can't read.
    for name in ("mcp.client", "client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


class _Server(MCPServer[Any]):
    """Describes its search by the version of the finder that counts when it is asked."""

    find: Callable[[], PackedFinder]

    async def list_tools(self) -> list[MCPTool]:
        """The tools, the description of the search newly written."""
        listed = await super().list_tools()
        return [
            tool.model_copy(update={"description": _describe_search(self.find())})
            if tool.name == "search_tools"
            else tool
            for tool in listed
        ]


def _describe_search(finder: PackedFinder) -> str:
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
    return (
        f"Find the tools that a request needs among {len(finder.tools):,}, best first. `query` "
        "says in plain words what is to be done, or is a tool's exact name. "
        f"{scores} Schemas are given by describe_tool.{pinned}"
    )


def _add_call(
    server: MCPServer[Any],
    calls: Calls,
    find: Callable[[], PackedFinder],
    log: FeedbackLog | None,
    finder: str,
) -> None:
    """The tool that calls; with a log, what was called counts as chosen from its search."""
    described = (
        "Call a tool that search_tools has found, with arguments that fit its parameters; "
        "gives what it answers."
    )

    async def call(name: str, arguments: dict[str, Any] | None = None) -> str:
        return await calls.run(_find(find(), name), arguments or {})

    async def call_found(
        name: str, arguments: dict[str, Any] | None = None, search: str | None = None
    ) -> str:
        tool = _find(find(), name)
        answer = await calls.run(tool, arguments or {})
        if log is not None and search is not None:
            log.chose(finder, search, tool.name)
        return answer

    if log is None:
        server.add_tool(
            call, "call_tool", description=described, structured_output=False
        )
    else:
        described += " `search` is the `id` of the answer that it was found in."
        server.add_tool(
            call_found, "call_tool", description=described, structured_output=False
        )


def _find(finder: PackedFinder, name: str) -> Tool:
    tool = finder.describe(name)
    if tool is None:
        raise ToolError(
            f"No tool is called {name[:200]!r}. Names are those of search_tools."
        )
    return tool
