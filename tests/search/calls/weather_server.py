"""An MCP server on stdin and stdout, or with `http` over HTTP; some of its tools are no good.

Over HTTP it prints its ports; the second is that of IPv6, 0 on a machine without.
"""

import asyncio
import os
import socket
import sys
from contextlib import suppress
from threading import Timer

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp.types import ImageContent, ResourceLink, ToolAnnotations

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


notes = []


@server.tool()
async def note(text: str, ctx: Context) -> list:
    """Write down what the weather was, and show the notes: their number, a picture, a file."""
    notes.append(text)
    await ctx.report_progress(1, 2, "written")
    where = "file:///notes.txt"
    return [
        f"{len(notes)} notes by {os.getpid()}",
        ImageContent(data="aGVsbG8=", mime_type="image/png"),
        ResourceLink(name="notes", uri=where),
    ]


@server.tool()
def fall() -> str:
    """End in the middle of the weather."""
    os._exit(3)


@server.tool()
def complain() -> str:
    """Tell that there is no weather."""
    raise ValueError("there is no weather")


@server.tool()
async def leak(ctx: Context) -> str:
    """Say by progress and an error what nobody may know."""
    await ctx.report_progress(1, 2, f"by {os.environ['NAME']}")
    raise MCPError(-32000, f"not for {os.environ['NAME']}")


@server.tool()
async def describe() -> str:
    """Describe the weather at length."""
    await asyncio.sleep(0.3)
    return "x" * 900_000


@server.tool()
async def babble() -> str:
    """Answer, and go on for ever."""

    def go_on():
        while True:
            print("x" * 100_000, file=sys.stderr)

    Timer(0.2, go_on).start()
    return str(os.getpid())


def run_http():
    import uvicorn

    port = int(*sys.argv[2:] or [0])
    listening = [socket.create_server(("127.0.0.1", port))]
    with suppress(OSError):
        listening.append(socket.create_server(("::1", 0), family=socket.AF_INET6))
    ports = [one.getsockname()[1] for one in listening]
    print(*[*ports, 0][:2], flush=True)
    config = uvicorn.Config(server.streamable_http_app(), log_level="error")
    uvicorn.Server(config).run(sockets=listening)


if __name__ == "__main__":
    run_http() if sys.argv[1:2] == ["http"] else server.run()
