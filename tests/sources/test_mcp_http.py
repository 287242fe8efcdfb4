"""Tools of MCP servers at an address, and what is answered there instead."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.servers.named import grant_of
from tests.sources.test_mcp_stdio import KIND, refusal
from toolbank.sources.mcp.settings import McpSource
from toolbank.system.errors import InputError, ToolbankError

SDK = str(Path(__file__).with_name("sdk_mcp.py"))
TOKEN = "s3cret-token-of-16-signs"


@pytest.fixture(scope="module")
def address():
    """A server of 250 tools by the SDK, in pages of 40."""
    with serving("http") as url:
        yield url


@contextmanager
def serving(way: str) -> Iterator[str]:
    command = [sys.executable, SDK, "250", "40", way]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


@contextmanager
def answering(status=200, body=b"", **headers) -> Iterator[tuple[str, list]]:
    """A web server that answers everything so, and what it was asked."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            length = int(self.headers.get("Content-Length") or 0)
            asked.append((self.path, dict(self.headers), self.rfile.read(length)))
            given = body if isinstance(body, bytes) else b""
            if callable(body) and length:
                given = body(json.loads(asked[-1][2]))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(given)))
            self.end_headers()
            self.wfile.write(given)

        do_GET = do_DELETE = do_POST  # noqa: N815

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp", asked
    finally:
        server.shutdown()
        server.server_close()


def test_all_pages_are_read(address, tmp_path):
    read = KIND.read(McpSource(url=address, name="far"), tmp_path)
    assert [t.name for t in read.tools] == [f"far/tool_{n:04}" for n in range(250)]
    assert read.tools[7].title == "Tool 7"
    assert len(read.tools[7].parameters["properties"]) == 5


def test_the_same_server_by_stdio_gives_the_same(address, tmp_path, monkeypatch):
    command = (sys.executable, SDK, "250", "40")
    monkeypatch.setenv("TOOLBANK_GRANTS", " ".join(["start", *command]))
    far = KIND.read(McpSource(url=address), tmp_path)
    near = KIND.read(McpSource(command=command), tmp_path)
    assert [t.name for t in near.tools] == [f"sdk/tool_{n:04}" for n in range(250)]
    without = {"source": ""}
    assert [t.model_copy(update=without) for t in near.tools] == [
        t.model_copy(update=without) for t in far.tools
    ]


def test_a_file_may_name_a_server_of_earlier_versions(tmp_path):
    with serving("sse") as url:
        file = tmp_path / "servers.json"
        entry = {"type": "sse", "serverUrl": url}
        file.write_text(json.dumps({"servers": {"old": entry}}))
        read = KIND.read(McpSource(config=file), tmp_path)
    assert [t.name for t in read.tools] == [f"old/tool_{n:04}" for n in range(250)]


HTML = b"<html><body>Welcome</body></html>"
WRONG = {
    "HTML": ((200, HTML), {"Content_Type": "text/html; charset=utf-8"}, "text/html"),
    "a page that is not there": ((404, HTML), {"Content_Type": "text/html"}, "404"),
    "a token": ((401, b""), {}, "HTTP status 401"),
    "no access": ((403, b""), {}, "HTTP status 403"),
    "a fault": ((500, b""), {}, "HTTP status 500"),
    "no JSON-RPC": (
        (200, b'{"a": 1}'),
        {"Content_Type": "application/json"},
        "the protocol",
    ),
    "no JSON": ((200, b"{"), {"Content_Type": "application/json"}, "the protocol"),
    "nested": (
        (200, b"[" * 100_000),
        {"Content_Type": "application/json"},
        "the protocol",
    ),
    "packed": (
        (200, b"x"),
        {"Content_Type": "application/json", "Content_Encoding": "gzip"},
        "compressed",
    ),
    "a broken redirect": ((307, b""), {"Location": "http://["}, "another address"),
    "nothing": ((202, b""), {}, "returned an error"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_mcp_server_is_one_clear_message(wrong, tmp_path, capfd):
    (status, body), headers, said = WRONG[wrong]
    with answering(status, body, **headers) as (url, _):
        source = McpSource(url=url, timeout_s=20)
        message = refusal(source, tmp_path, None, ToolbankError)
        assert url in message and said in message
        assert "Traceback" not in message and len(message) < 600
        assert capfd.readouterr().err == ""


def answer_all(asked):
    """What a server without tools says, which knows the protocol of 2025 alone."""
    said = {"jsonrpc": "2.0", "id": asked.get("id")}
    if asked["method"] == "initialize":
        told = {"protocolVersion": "2025-06-18", "capabilities": {}}
        said["result"] = told | {"serverInfo": {"name": "none", "version": "1"}}
    else:
        said["error"] = {"code": -32601, "message": "Method not found"}
    return json.dumps(said).encode()


@pytest.mark.parametrize(
    ("body", "said"),
    [(answer_all, "lists no tools"), (lambda _: b" " * 100_000_000, "over 32 MB")],
)
def test_an_answer_without_tools_or_end_is_refused(tmp_path, body, said):
    with answering(200, body, Content_Type="application/json") as (url, _):
        refusal(McpSource(url=url, timeout_s=20), tmp_path, said)


@pytest.mark.parametrize("dripping", [True, False])
def test_a_server_that_does_not_answer_is_waited_for_no_longer(tmp_path, dripping):
    with socket.create_server(("127.0.0.1", 0)) as place:
        url = f"http://127.0.0.1:{place.getsockname()[1]}/mcp"

        def answer():
            connection, _ = place.accept()
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
            try:
                connection.sendall(head if dripping else b"")
                while True:
                    connection.sendall(b": wait\n\n" if dripping else b"")
                    time.sleep(0.05)
            except OSError:
                pass

        threading.Thread(target=answer, daemon=True).start()
        source = McpSource(url=url, timeout_s=1)
        refusal(source, tmp_path, "within 1 seconds", ToolbankError)


def test_a_server_that_is_not_there_may_be_there_later(tmp_path):
    with answering() as (url, _):
        pass
    with pytest.raises(ToolbankError, match="cannot be reached") as caught:
        KIND.read(McpSource(url=url), tmp_path)
    assert not isinstance(caught.value, InputError)


def test_a_token_goes_where_the_user_lets_it(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", TOKEN)
    with answering(401) as (url, asked):
        source = McpSource(url=url, token_env="MY_TOKEN", headers={"X-Key": "MY_TOKEN"})
        refusal(source, tmp_path, "needs your permission to send")
        assert not asked
        monkeypatch.setenv("TOOLBANK_GRANTS", grant_of(url, "MY_TOKEN"))
        assert TOKEN not in refusal(source, tmp_path, "requires a token")
        assert asked[0][1]["Authorization"] == f"Bearer {TOKEN}"
        assert asked[0][1]["X-Key"] == TOKEN


def test_a_redirect_to_another_host_gets_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", TOKEN)
    with answering(200) as (other, asked_there):
        location = other.replace("127.0.0.1", "localhost")
        with answering(307, Location=location) as (url, asked):
            monkeypatch.setenv("TOOLBANK_GRANTS", grant_of(url, "MY_TOKEN"))
            source = McpSource(url=url, token_env="MY_TOKEN")
            refusal(source, tmp_path, "another address, http://localhost:")
        assert asked and not asked_there


def test_a_public_name_at_a_private_address_is_refused(tmp_path, monkeypatch):
    with answering(200) as (url, asked):
        port = int(url.rpartition(":")[2].removesuffix("/mcp"))

        def resolve(host, *_, **__):
            family = socket.AF_INET, socket.SOCK_STREAM, 6, ""
            return [(*family, ("127.0.0.1", port))]

        monkeypatch.setattr("socket.getaddrinfo", resolve)
        public = f"http://tools.example.com:{port}/mcp"
        refusal(McpSource(url=public), tmp_path, r"private address, 127\.0\.0\.1")
        assert not asked
        with pytest.raises(ToolbankError):
            KIND.read(McpSource(url=public, private_addresses=True), tmp_path)
        assert asked


def test_the_next_address_of_a_host_is_tried(tmp_path, monkeypatch):
    with answering(200, answer_all, Content_Type="application/json") as (url, asked):
        port = int(url.rpartition(":")[2].removesuffix("/mcp"))

        def resolve(host, *_, **__):
            family = socket.AF_INET, socket.SOCK_STREAM, 6, ""
            return [(*family, (f"127.0.0.{last}", port)) for last in (3, 1)]

        monkeypatch.setattr("socket.getaddrinfo", resolve)
        monkeypatch.setattr("toolbank.system.http.is_public_ip", bool)
        with pytest.raises(InputError, match="lists no tools"):
            KIND.read(McpSource(url=f"http://tools.example.com:{port}/mcp"), tmp_path)
        assert asked[0][1]["Host"] == f"tools.example.com:{port}"
