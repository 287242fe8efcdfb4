"""An MCP server over HTTP, which prints its port; one of its tools says far too much."""

import socket

import uvicorn
from mcp.server import MCPServer

server = MCPServer("weather", log_level="ERROR")


@server.tool()
def forecast(city: str) -> str:
    """Tell the weather of a city."""
    return f"Rain in {city}."


@server.tool()
def flood() -> str:
    """Tell all weather that ever was."""
    return "rain " * 2_000_000


if __name__ == "__main__":
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    app = server.streamable_http_app()
    config = uvicorn.Config(app, log_level="error")
    uvicorn.Server(config).run(sockets=[listening])
