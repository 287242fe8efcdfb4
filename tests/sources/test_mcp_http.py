import json
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.servers.named import grant_of
from tests.sources.mcp_servers import KIND, answering, list_servers, refusal
from tests.sources.resolving import resolve_to
from toolbank.sources.mcp.settings import McpSource
from toolbank.system.errors import InputError, ToolbankError

COMMAND = (sys.executable, str(Path(__file__).with_name("sdk_mcp.py")), "250", "40")
"""A server of 250 tools by the SDK, in pages of 40."""
TOKEN = "s3cret-token-of-16-signs"
JSON = {"Content_Type": "application/json"}


@contextmanager
def serving(way):
    process = subprocess.Popen([*COMMAND, way], stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


def test_all_pages_are_read_by_http_as_by_stdio(tmp_path, monkeypatch):
    with serving("http") as url:
        far = KIND.read(McpSource(url=url), tmp_path).tools
    assert [t.name for t in far] == [f"sdk/tool_{n:04}" for n in range(250)]
    assert far[7].title == "Tool 7" and len(far[7].parameters["properties"]) == 5
    monkeypatch.setenv("TOOLBANK_GRANTS", " ".join(["start", *COMMAND]))
    near = KIND.read(McpSource(command=COMMAND), tmp_path).tools
    without = {"source": ""}
    assert [t.model_copy(update=without) for t in near] == [
        t.model_copy(update=without) for t in far
    ]


def test_a_file_may_name_a_server_of_earlier_versions(tmp_path):
    with serving("sse") as url:
        entry = {"type": "sse", "serverUrl": url}
        file = list_servers(tmp_path, {"old": entry}, "servers")
        read = KIND.read(McpSource(config=file), tmp_path)
    assert [t.name for t in read.tools] == [f"old/tool_{n:04}" for n in range(250)]


def answer_without_tools(request):
    answer = {"jsonrpc": "2.0", "id": request.get("id")}
    if request["method"] == "initialize":
        about = {"protocolVersion": "2025-06-18", "capabilities": {}}
        answer["result"] = about | {"serverInfo": {"name": "none", "version": "1"}}
    else:
        answer["error"] = {"code": -32601, "message": "Method not found"}
    return json.dumps(answer).encode()


HTML = b"<html><body>Welcome</body></html>"


@pytest.mark.parametrize(
    ("status", "body", "headers", "said"),
    [
        (200, HTML, {"Content_Type": "text/html; charset=utf-8"}, "text/html"),
        (404, HTML, {"Content_Type": "text/html"}, "HTTP status 404"),
        (401, b"", {}, "HTTP status 401"),
        (403, b"", {}, "HTTP status 403"),
        (500, b"", {}, "HTTP status 500"),
        (200, b'{"a": 1}', JSON, "the protocol"),
        (200, b"{", JSON, "the protocol"),
        (200, b"[" * 100_000, JSON, "the protocol"),
        (200, b"x", {**JSON, "Content_Encoding": "gzip"}, "compressed"),
        (200, lambda _: b" " * 100_000_000, JSON, "over 32 MB"),
        (200, answer_without_tools, JSON, "lists no tools"),
        (307, b"", {"Location": "http://["}, "another address"),
        (202, b"", {}, "returned an error"),
    ],
)
def test_what_is_no_mcp_server_is_named(tmp_path, capfd, status, body, headers, said):
    with answering(status, body, **headers) as (url, _):
        source = McpSource(url=url, timeout_s=20)
        message = refusal(source, tmp_path, None, ToolbankError)
    assert url in message and said in message
    assert "Traceback" not in message and len(message) < 600
    assert capfd.readouterr().err == ""


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


@pytest.mark.parametrize("in_file", [False, True])
def test_a_token_goes_where_the_user_lets_it(tmp_path, monkeypatch, in_file):
    monkeypatch.setenv("MY_TOKEN", TOKEN)
    with answering(401) as (url, requests):
        source = McpSource(url=url, token_env="MY_TOKEN", headers={"X-Key": "MY_TOKEN"})
        if in_file:
            headers = {"Authorization": "Bearer ${MY_TOKEN}", "X-Key": "${MY_TOKEN}"}
            entry = {"type": "http", "url": url, "headers": headers}
            source = McpSource(config=list_servers(tmp_path, {"far": entry}))
        refusal(source, tmp_path, "needs your permission to send")
        assert not requests
        monkeypatch.setenv("TOOLBANK_GRANTS", grant_of(url, "MY_TOKEN"))
        assert TOKEN not in refusal(source, tmp_path, "requires a token")
        assert requests[0][1]["Authorization"] == f"Bearer {TOKEN}"
        assert requests[0][1]["X-Key"] == TOKEN


def test_a_redirect_to_another_host_gets_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", TOKEN)
    with answering(200) as (other, requests_there):
        location = other.replace("127.0.0.1", "me:pass@localhost") + "?key=sesame"
        with answering(307, Location=location) as (url, requests):
            monkeypatch.setenv("TOOLBANK_GRANTS", grant_of(url, "MY_TOKEN"))
            source = McpSource(url=url, token_env="MY_TOKEN")
            message = refusal(source, tmp_path, "another address, on localhost")
        assert requests and not requests_there
        assert "pass" not in message and "sesame" not in message


def test_a_public_name_at_a_private_address_is_refused(tmp_path, monkeypatch):
    with answering(200) as (url, requests):
        resolve_to(monkeypatch, "tools.example.com", ["127.0.0.1"])
        public = f"http://tools.example.com:{urlsplit(url).port}/mcp"
        refusal(McpSource(url=public), tmp_path, r"private address, 127\.0\.0\.1")
        assert not requests
        with pytest.raises(ToolbankError):
            KIND.read(McpSource(url=public, private_addresses=True), tmp_path)
        assert requests


def test_the_next_address_of_a_host_is_tried(tmp_path, monkeypatch):
    with answering(200, answer_without_tools, **JSON) as (url, requests):
        resolve_to(monkeypatch, "tools.example.com", ["127.0.0.3", "127.0.0.1"])
        monkeypatch.setattr("toolbank.system.http.is_public_ip", bool)
        host = f"tools.example.com:{urlsplit(url).port}"
        refusal(McpSource(url=f"http://{host}/mcp"), tmp_path, "lists no tools")
        assert requests[0][1]["Host"] == host
