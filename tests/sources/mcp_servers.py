"""MCP servers of the tests, and the files in which a client lists them."""

import json
import shlex
import sys
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from toolbank.sources import SOURCES
from toolbank.system.errors import InputError

KIND = SOURCES.find("mcp", "")
LIGHT = str(Path(__file__).with_name("light_mcp.py"))
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
TOOLS = [
    {"name": f"t{number}", "description": f"Does {number}.", "inputSchema": SCHEMA}
    for number in range(12)
]
FAULTS = {
    "dies at start": "(exit code 3)",
    "dies in the middle": "(signal 9)",
    "floods stdout": "it floods stdout",
    "endless line": "over 32 MB",
    "huge message": "over 32 MB",
    "wrong answer": "its tools are not a list",
    "error": "no database (code -32000)",
    "not JSON-RPC": "stdout is not a message",
    "cursor is a number": "the protocol",
    "hangs": "within 0.5 seconds (timeout_s)",
}
"""Faults of the light server, and the reason that is reported."""


def light(folder, name, fault="", tools=TOOLS, **more):
    """The entry of a server without a library; FOLDER/NAME.json.pid has its process number."""
    file = folder / f"{name}.json"
    file.write_text(tools if isinstance(tools, str) else json.dumps(tools))
    args = ["-S", "-I", LIGHT, str(file), fault, "5"]
    return {"command": sys.executable, "args": args, **more}


def list_servers(folder, entries, key="mcpServers"):
    file = folder / "servers.json"
    file.write_text(json.dumps({key: entries}))
    return file


def grants(*entries):
    """The value of TOOLBANK_GRANTS that lets the commands of entries start."""
    return "\n".join(
        shlex.join(
            [
                "start",
                *(f"{k}={v}" for k, v in sorted(entry.get("env", {}).items())),
                *(entry["command"], *entry["args"]),
            ]
        )
        for entry in entries
        if "command" in entry
    )


def refusal(source, folder, match="needs your permission", error=InputError):
    """The message with which a source is refused."""
    with pytest.raises(error, match=match) as caught:
        KIND.read(source, folder)
    return str(caught.value)


def is_gone(file):
    """Whether the process that wrote this file with its number is no more."""
    number = int(file.read_text())
    for _ in range(100):
        try:
            state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return True
        if state[0] == "Z":  # it has ended, and nobody has waited for it yet
            return True
        time.sleep(0.01)
    return False


@contextmanager
def answering(status=200, body=b"", **headers):
    """A web server with one answer, and the requests that it got."""
    requests = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            length = int(self.headers.get("Content-Length") or 0)
            requests.append((self.path, dict(self.headers), self.rfile.read(length)))
            given = body if isinstance(body, bytes) else b""
            if callable(body) and length:
                given = body(json.loads(requests[-1][2]))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(given)))
            self.end_headers()
            with suppress(ConnectionError):
                self.wfile.write(given)

        do_GET = do_DELETE = do_POST  # noqa: N815

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp", requests
    finally:
        server.shutdown()
        server.server_close()
