"""A real HTTP API on loopback, which notes what comes."""

import asyncio
import json
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from toolbank.search.calls.mcp import McpSessions


def call_server(tool, arguments, target):
    """The texts that an MCP server answers to a call."""

    async def ask():
        sessions = McpSessions()
        try:
            return await sessions.call(tool, arguments, target)
        finally:
            await sessions.close()

    return "\n".join(part.text for part in asyncio.run(ask()).content)


@contextmanager
def serving(answer):
    """The address of an API, and the list of what came: method, path, headers, body.

    `answer` takes these four and gives the status, headers and body of the answer.
    """
    came = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            request = (self.command, self.path, dict(self.headers), body)
            came.append(request)
            status, headers, content = answer(*request)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(content)

        do_GET = do_POST = do_DELETE = answer  # noqa: N815

        def log_message(self, *arguments):
            pass

    with running(Handler) as address:
        yield address, came


def serving_api():
    """An API whose answer has the path, unless a word of the path asks for another one."""

    def answer(_, path, *__):
        if "redirect" in path:
            place = {"Location": "http://169.254.169.254/latest/meta-data"}
            return 302, place, b""
        if "slow" in path:
            time.sleep(3)
        body = json.dumps({"path": path}).encode()
        status = 500 if "broken" in path else 200
        return status, {}, b"x" * 3_000_000 if "huge" in path else body

    return serving(answer)


@contextmanager
def running(handler):
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    # A client that has enough of an answer closes the connection.
    server.handle_error = lambda *_: None
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
