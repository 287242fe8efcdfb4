"""An MCP server on stdin and stdout, with a tool that reads and one that writes."""

import os

from mcp.server import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("weather", log_level="ERROR")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def forecast(city: str) -> str:
    """Tell the weather of a city."""
    return f"Rain in {city}, says {os.environ.get('NAME', 'nobody')}."


@server.tool()
def make_rain(city: str) -> str:
    """Let it rain in a city."""
    return "done"


if __name__ == "__main__":
    server.run()
