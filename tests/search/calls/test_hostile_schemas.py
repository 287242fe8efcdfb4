"""What a called server says is data: no schema and no answer of it can stop the service."""

import json
import sys
import threading
import time
from contextlib import ExitStack, contextmanager

import pytest
import yaml

from tests.search.calls.apis import call_server
from tests.search.calls.apis import serving as serving_requests
from tests.search.packed.packs import TOOLS, write_pack
from tests.search.serve.servers import KEY, serving
from toolbank.bank.records import McpCall, Tool
from toolbank.search.calls import Target

pytest.importorskip("mcp", reason="the extra mcp is not installed")

CRUEL = r"^([a-z]|[a-z0-9])+$"
WORD = "a1" * 30 + "!"


DEEP = {"type": "object"}
for _ in range(60):
    DEEP = {"type": "object", "properties": {"a": DEEP}}
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
    "deep": (DEEP, {"x": 1}),
    "no schema": ({"type": [{"a": 1}] * 50, "required": "x"}, {"x": 1}),
}


RPC = {"jsonrpc": "2.0"}
JSON = {"Content-Type": "application/json"}


@contextmanager
def answering(schemas, keyword, kind="application/json", raw=b""):
    """An MCP server whose tools have these schemas under a keyword; its address.

    `raw` is what it answers to a call, as `kind`, with the call's id for ID.
    """

    def answer(method, _, __, body):
        if method != "POST":
            return 405, JSON, b""
        asked = json.loads(body)
        if "id" not in asked:
            return 202, JSON, b""
        if raw and asked["method"] == "tools/call":
            said = raw.replace(b"ID", str(asked["id"]).encode())
            if kind.startswith("text/event-stream"):
                said = b"data: " + said + b"\n\n"
            return 200, {"Content-Type": kind}, said
        said = {
            **RPC,
            "id": asked["id"],
            **respond(asked["method"], asked.get("params")),
        }
        return 200, JSON, json.dumps(said).encode()

    def respond(method, params):
        if method == "initialize":
            server = {"name": "cruel", "version": "1"}
            about = {"capabilities": {"tools": {}}, "serverInfo": server}
            return {"result": {"protocolVersion": params["protocolVersion"], **about}}
        if method == "tools/list":
            tools = [
                {"name": name, "inputSchema": {"type": "object"}, keyword: schema}
                for name, (schema, _) in schemas.items()
            ]
            return {"result": {"tools": tools}}
        if method == "tools/call":
            content = [{"type": "text", "text": "done"}]
            structured = schemas[params["name"]][1]
            return {"result": {"content": content, "structuredContent": structured}}
        return {"error": {"code": -32601, "message": "no such method"}}

    with serving_requests(answer) as (address, _):
        yield f"{address}/mcp"


@contextmanager
def passing_on(folder, target, tools):
    """A server whose calls go to an address, or to the target of each source."""
    if isinstance(target, str):
        target = {"cruel": {"mcp": target, "private": True}}
    config = folder / "calls.yaml"
    config.write_text(yaml.safe_dump({"sources": target}))
    write_pack(folder / "pack", (*TOOLS, *tools))
    arguments = ["--call", "*", "--call-writes", "--call-config", config]
    with serving(folder / "pack", *arguments, key=KEY) as server:
        yield server


def call(server, name, arguments):
    given = {"name": "call_tool", "arguments": {"name": name, "arguments": arguments}}
    content = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": given}
    accept = "application/json, text/event-stream"
    key = f"Bearer {KEY}"
    answer = server.ask("/mcp", content, Authorization=key, Accept=accept)
    result = answer.json["result"]
    return result["content"][0]["text"], result.get("isError", False)


def make_tools(names, source=""):
    return [
        Tool(name=name, summary=name, call=McpCall(source=source or name, tool=name))
        for name in names
    ]


def test_no_answer_is_held_against_the_servers_own_schema(tmp_path):
    with (
        answering(SCHEMAS, "outputSchema") as address,
        passing_on(tmp_path, address, make_tools(SCHEMAS, "cruel")) as server,
    ):
        said = {name: call(server, name, {}) for name in SCHEMAS}
        assert server.ask("/healthz").status == 200
        server.end()
    assert said == dict.fromkeys(SCHEMAS, ("done", False))


# Each is what a server says to a call: again and again, until nobody listens. ID is the call's.
OBJECTS = b"{}," * 300_000 + b"{}"
FLOODS = {
    "parts": b'{"jsonrpc":"2.0","id":ID,"result":{"content":[%s]}}'
    % b",".join([b'{"type":"text","text":""}'] * 110_000),
    "objects": b'{"jsonrpc":"2.0","id":ID,"result":{"content":[],"structuredContent":{"a":[%s]}}}'
    % OBJECTS,
    "no message": b'{"id":ID,"rsult":{"a":[%s]}}' % OBJECTS.replace(b"{}", b"[]"),
    "notifications": b'{"jsonrpc":"2.0","method":"notifications/message",'
    b'"params":{"level":"info","data":["\\\\","\\"",%s]}}' % OBJECTS,
    "small notifications": b'{"jsonrpc":"2.0","method":"notifications/x"}',
    "pings": b'{"jsonrpc":"2.0","id":"a","method":"ping"}',
    "blank lines": b"\n" * 100_000,
    "UTF-16": '{"a":"\u2230",'.encode("utf-16-le") + b"[\0]\0,\0" * 300_000,
    "long texts": b'{"jsonrpc":"2.0","method":"notifications/message",'
    b'"params":{"level":"info","data":"%s"}}' % (b"a" * 900_000),
}
SPEAKER = """
import json, sys
from pathlib import Path
said = Path(sys.argv[1]).read_bytes()
out = getattr(sys, sys.argv[2]).buffer
for line in sys.stdin.buffer:
    asked = json.loads(line)
    if asked["method"] == "tools/call":
        said = said.replace(b"ID", str(asked["id"]).encode())
        while True:
            out.write(said + b"\\n")
    if "id" not in asked:
        continue
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] == "initialize":
        answer["result"] = {
            "protocolVersion": asked["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "cruel", "version": "1"},
        }
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    print(json.dumps(answer), flush=True)
"""


def call_floods(folder, targets):
    """What calls of all sources give at once, while others search; no log grows by them."""
    said = {}

    def call_one(name):
        said[name] = call(server, name, {})

    with passing_on(folder, targets, make_tools(targets)) as server:
        calling = [threading.Thread(target=call_one, args=(name,)) for name in targets]
        for one in calling:
            one.start()
        while any(one.is_alive() for one in calling):
            found = server.ask("/search?q=song", Authorization=f"Bearer {KEY}")
            assert found.status == 200
            time.sleep(0.1)
        assert server.ask("/healthz").status == 200
        assert "Traceback" not in server.end()
    return said


@pytest.mark.slow
def test_a_started_server_that_floods_is_given_up(tmp_path):
    speaker = tmp_path / "speaker.py"
    speaker.write_text(SPEAKER)
    targets = {}
    for name, flood in {**FLOODS, "stderr": b"noise\n" * 100_000}.items():
        file = tmp_path / name
        file.write_bytes(flood)
        stream = "stderr" if name == "stderr" else "stdout"
        targets[name] = {"command": [sys.executable, str(speaker), str(file), stream]}
    for name, (said, failed) in call_floods(tmp_path, targets).items():
        assert failed, name
        assert "aborted: it sends more than" in said, name


@pytest.mark.slow
def test_a_server_over_http_that_floods_is_given_up(tmp_path):
    answers = {
        "parts": ("application/json", "parts"),
        "no message": ("application/json", "no message"),
        "notifications": ("text/event-stream", "notifications"),
        "UTF-16": ("text/event-stream; charset=utf-16-le", "UTF-16"),
        "garbage": ("application/json", None),
    }
    with ExitStack() as stack:
        targets = {}
        for name, (kind, flood) in answers.items():
            raw = FLOODS[flood] if flood else b"no JSON"
            at = stack.enter_context(answering({}, "inputSchema", kind, raw))
            targets[name] = {"mcp": at, "private": True}
        said = call_floods(tmp_path, targets)
    assert all(failed for _, failed in said.values())
    for name in ("parts", "no message", "notifications"):
        assert "aborted: it sends more than" in said[name][0], name
    assert "not UTF-8" in said["UTF-16"][0]


def test_a_large_answer_of_few_values_is_passed_on():
    rows = json.dumps([{"name": f'a "{n}" \\ {{[,]}}', "n": n} for n in range(15_000)])
    answer = {"content": [{"type": "text", "text": rows}, {"type": "text", "text": ""}]}
    body = json.dumps({**RPC, "id": "ID", "result": answer}).replace('"ID"', "ID")
    with answering({}, "inputSchema", raw=body.encode()) as address:
        target = Target(mcp=address, private=True)
        assert call_server("cruel", {}, target) == rows + "\n"
