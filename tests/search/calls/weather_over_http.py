"""An MCP server over HTTP, which prints its ports; some of its tools are no good.

The second port is that of IPv6, 0 on a machine without.
"""

import asyncio
import socket
from contextlib import suppress

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

server = MCPServer("weather", log_level="ERROR")


@server.tool()
def forecast(city: str) -> str:
    """Tell the weather of a city."""
    return f"Rain in {city}."


@server.tool()
def flood() -> str:
    """Tell all weather that ever was."""
    return "rain " * 2_000_000


@server.tool()
async def dither() -> str:
    """Tell the weather once it is known for sure."""
    await asyncio.sleep(3600)
    return "It rained."


@server.tool()
def tell(ctx: Context) -> str:
    """Tell who asks for the weather."""
    return str(dict(ctx.headers))


if __name__ == "__main__":
    listening = [socket.create_server(("127.0.0.1", 0))]
    with suppress(OSError):
        listening.append(socket.create_server(("::1", 0), family=socket.AF_INET6))
    ports = [one.getsockname()[1] for one in listening]
    print(*[*ports, 0][:2], flush=True)
    app = server.streamable_http_app()
    config = uvicorn.Config(app, log_level="error")
    uvicorn.Server(config).run(sockets=listening)
