"""An MCP server made with the SDK, which pages: by stdio, or by HTTP at a free port.

python sdk_mcp.py TOOLS PAGE [http|sse]: so many tools, so many of them at once. By HTTP the first
line on stdout is its address; by SSE it is the HTTP of earlier versions of the protocol.
"""

import socket
import sys

import anyio
import mcp.types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server


def tool(number):
    properties = {
        f"argument_{n}": {"type": "string", "description": f"The {n}th of {number}."}
        for n in range(5)
    }
    return types.Tool(
        name=f"tool_{number:04}",
        title=f"Tool {number}",
        description=f"Does what number {number} does.",
        input_schema={"type": "object", "properties": properties},
    )


def make(tools, page):
    async def list_tools(_, params):
        begin = int(getattr(params, "cursor", None) or 0)
        end = min(begin + page, tools)
        return types.ListToolsResult(
            tools=[tool(number) for number in range(begin, end)],
            next_cursor=str(end) if end < tools else None,
        )

    return Server("sdk", on_list_tools=list_tools)


async def serve(server):
    async with stdio_server() as (messages, answers):
        await server.run(messages, answers, server.create_initialization_options())


def serve_http(app, path):
    place = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{place.getsockname()[1]}{path}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[place])


def sse_app(server):
    transport = SseServerTransport("/messages/")

    async def app(scope, receive, send):
        if scope["type"] == "http" and scope["path"] == "/sse":
            async with transport.connect_sse(scope, receive, send) as (
                messages,
                answers,
            ):
                options = server.create_initialization_options()
                await server.run(messages, answers, options)
        elif scope["type"] == "http":
            await transport.handle_post_message(scope, receive, send)

    return app


if __name__ == "__main__":
    made = make(int(sys.argv[1]), int(sys.argv[2]))
    match sys.argv[3:]:
        case ["http"]:
            serve_http(made.streamable_http_app(), "/mcp")
        case ["sse"]:
            serve_http(sse_app(made), "/sse")
        case _:
            anyio.run(serve, made)
