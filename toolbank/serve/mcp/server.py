"""The tools by which an agent finds tools, and calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from toolbank.bank.records import Tool
from toolbank.calls.caller import Caller
from toolbank.calls.errors import CallError
from toolbank.packed.finder import Answer, PackedFinder
from toolbank.serve.answers import describe_answer
from toolbank.serve.settings import MOST_HITS, MOST_QUERY
from toolbank.system.errors import InputError
from toolbank.system.version import __version__

Searched = Callable[[str, Answer], None]


def create_mcp(
    find: Callable[[], PackedFinder],
    caller: Caller | None = None,
    searched: Searched | None = None,
) -> MCPServer[Any]:
    """A server with `search_tools`, `describe_tool` and, with a caller, `call_tool`.

    `find` gives the finder as it is at the time; `searched` is told of each search.
    """
    finder = find()
    server: MCPServer[Any] = MCPServer(
        "toolbank",
        version=__version__,
        instructions=f"Finds the right ones of {len(finder.tools):,} tools. Search first, by "
        "what is to be done; then read the schema of a tool that fits."
        + (" Call it by call_tool." if caller else ""),
        log_level="ERROR",
    )

    def search_tools(
        query: str, k: int = 5, min_score: float | None = None
    ) -> dict[str, Any]:
        finder = find()
        _check(query, k)
        try:
            answer = finder.answer(query, k, min_score)
        except InputError as error:
            raise ToolError(str(error)) from error
        if searched is not None:
            searched(query, answer)
        return describe_answer(answer)

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
        if caller is not None:
            described["can_be_called"] = caller.allows(tool)
        return described

    async def call_tool(name: str, arguments: dict[str, Any]) -> str:
        assert caller is not None
        try:
            return await caller.call(_find(find(), name), arguments)
        except CallError as error:
            raise ToolError(str(error)) from error

    pinned = "".join(
        f"\nAlways at hand: {tool.name} ({tool.summary})" for tool in finder.pinned
    )
    server.add_tool(
        search_tools,
        description="Find the tools that a request needs, best first. `query` says in plain "
        "words what is to be done, or is a tool's exact name. `score` is how likely a tool is "
        "needed; `none` says that nothing fits: say it in other words, or do without. With "
        "`min_score` 0 there are always k hits. Schemas are given by describe_tool."
        + pinned,
        structured_output=True,
    )
    server.add_tool(
        describe_tool,
        description="The description and the parameters (JSON Schema) of a tool, by its name.",
        structured_output=True,
    )
    if caller is not None:
        server.add_tool(
            call_tool,
            description="Call a tool that search_tools has found, with arguments that fit its "
            "parameters; gives what it answers.",
            structured_output=False,
        )
    return server


def _find(finder: PackedFinder, name: str) -> Tool:
    tool = finder.describe(name)
    if tool is None:
        raise ToolError(
            f"No tool is called {name[:200]!r}. Names are those of search_tools."
        )
    return tool


def _check(query: str, k: int) -> None:
    if len(query) > MOST_QUERY:
        raise ToolError(f"query has {len(query):,} characters; at most {MOST_QUERY:,}.")
    if not 1 <= k <= MOST_HITS:
        raise ToolError(f"k is {k}; a whole number from 1 to {MOST_HITS:,}.")
