"""An MCP server on stdin and stdout, or with `http` over HTTP; some of its tools are no good.

Over HTTP it prints its ports; the second is that of IPv6, 0 on a machine without.
"""

import asyncio
import os
import socket
import sys
from contextlib import suppress

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
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


def run_http():
    import uvicorn

    listening = [socket.create_server(("127.0.0.1", 0))]
    with suppress(OSError):
        listening.append(socket.create_server(("::1", 0), family=socket.AF_INET6))
    ports = [one.getsockname()[1] for one in listening]
    print(*[*ports, 0][:2], flush=True)
    config = uvicorn.Config(server.streamable_http_app(), log_level="error")
    uvicorn.Server(config).run(sockets=listening)


if __name__ == "__main__":
    run_http() if sys.argv[1:] == ["http"] else server.run()
