"""What a called server says of its tools is data: no schema of it can stop the service."""

import json
import signal
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml

from tests.packed.packs import TOOLS, write_pack
from tests.serve.servers import KEY, serving
from toolbank.bank.call import McpCall
from toolbank.bank.records import Tool

pytest.importorskip("mcp", reason="the extra mcp is not installed")

CRUEL = r"^([a-z]|[a-z0-9])+$"
WORD = "a1" * 30 + "!"


def deep(levels):
    schema = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


DOUBLING = {
    "$defs": {
        "d0": {"type": "string"},
        **{
            f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n - 1}"}] * 2}
            for n in range(1, 40)
        },
    },
    "properties": {"x": {"$ref": "#/$defs/d39"}},
}
SCHEMAS = {
    "pattern": ({"properties": {"x": {"pattern": CRUEL}}}, {"x": WORD}),
    "patternProperties": ({"patternProperties": {CRUEL: {}}}, {WORD: 1}),
    "propertyNames": ({"propertyNames": {"pattern": CRUEL}}, {WORD: 1}),
    "references": (DOUBLING, {"x": "a"}),
    "itself": ({"$ref": "#"}, {"x": "a"}),
    "uniqueItems": (
        {"properties": {"x": {"uniqueItems": True}}},
        {"x": [{"a": n} for n in range(5_000)]},
    ),
    "multipleOf": ({"properties": {"x": {"multipleOf": 1e-300}}}, {"x": 10**300}),
    "deep": (deep(60), {"x": 1}),
    "no schema": ({"type": [{"a": 1}] * 50, "required": "x"}, {"x": 1}),
}


@contextmanager
def answering(schemas, keyword):
    """An MCP server whose tools have these schemas under a keyword; its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if "id" not in asked:
                self.answer(202, b"")
                return
            made = getattr(self, asked["method"].replace("/", "_"), None)
            said = {"jsonrpc": "2.0", "id": asked["id"]}
            if made is None:
                said["error"] = {"code": -32601, "message": "no such method"}
            else:
                said["result"] = made(asked.get("params", {}))
            self.answer(200, json.dumps(said).encode())

        def initialize(self, params):
            version = params["protocolVersion"]
            about = {"name": "cruel", "version": "1"}
            has = {"tools": {}}
            return {
                "protocolVersion": version,
                "capabilities": has,
                "serverInfo": about,
            }

        def tools_list(self, params):
            return {
                "tools": [
                    {"name": name, "inputSchema": {"type": "object"}, keyword: schema}
                    for name, (schema, _) in schemas.items()
                ]
            }

        def tools_call(self, params):
            content = [{"type": "text", "text": "done"}]
            structured = schemas[params["name"]][1]
            return {"content": content, "structuredContent": structured}

        def do_GET(self):
            self.answer(405, b"")

        do_DELETE = do_GET  # noqa: N815

        def answer(self, status, body):
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def passing_on(folder, address, tools):
    target = {"mcp": address, "private": True}
    config = folder / "calls.yaml"
    config.write_text(yaml.safe_dump({"sources": {"cruel": target}}))
    write_pack(folder / "pack", (*TOOLS, *tools))
    arguments = ["--call", "*", "--call-writes", "--call-config", config]
    with serving(folder / "pack", *arguments, key=KEY) as server:
        yield server


def call(server, name, arguments):
    """What a call of a tool gives, and whether it failed."""
    content = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": "call_tool",
            "arguments": {"name": name, "arguments": arguments},
        },
    }
    answer = server.ask(
        "/mcp",
        content,
        Authorization=f"Bearer {KEY}",
        Accept="application/json, text/event-stream",
    )
    result = answer.json["result"]
    return result["content"][0]["text"], result.get("isError", False)


def end(server):
    """Stops the server as an administrator does; how it ended."""
    server.process.send_signal(signal.SIGTERM)
    return server.process.wait(20)


def test_no_answer_is_held_against_the_servers_own_schema(tmp_path):
    tools = [
        Tool(name=name, summary=name, call=McpCall(source="cruel", tool=name))
        for name in SCHEMAS
    ]
    with (
        answering(SCHEMAS, "outputSchema") as address,
        passing_on(tmp_path, address, tools) as server,
    ):
        said = {name: call(server, name, {}) for name in SCHEMAS}
        assert server.ask("/healthz").status == 200
        assert end(server) == 0
    assert said == dict.fromkeys(SCHEMAS, ("done", False))


def test_arguments_are_held_against_a_schema_within_bounds(tmp_path):
    tools = [
        Tool(
            name=name,
            summary=name,
            parameters={"type": "object", **schema},
            call=McpCall(source="cruel", tool=name),
        )
        for name, (schema, _) in SCHEMAS.items()
        if name != "no schema"
    ]
    with (
        answering(SCHEMAS, "inputSchema") as address,
        passing_on(tmp_path, address, tools) as server,
    ):
        failed = {
            tool.name
            for tool in tools
            if call(server, tool.name, SCHEMAS[tool.name][1])[1]
        }
        assert server.ask("/healthz").status == 200
        assert end(server) == 0
    assert {"references", "itself"} <= failed
    assert not failed & {"pattern", "patternProperties", "deep"}
