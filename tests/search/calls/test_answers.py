"""Calls to an MCP server, over HTTP or started, and to an API: no more of an answer than may be."""

import asyncio
import gzip
import json
import subprocess
import sys
import tracemalloc
from pathlib import Path
from threading import Event
from time import monotonic

import pytest

from tests.search.calls.apis import call_server, serving
from tests.sources.resolving import resolve_to
from toolbank.bank.records import HttpCall
from toolbank.search.calls import CallError, Target, mcp
from toolbank.search.calls.http import prepare_request, send

SERVER = Path(__file__).with_name("weather_server.py")
CITY, RAIN = {"city": "Oslo"}, "Rain in Oslo, says nobody."


@pytest.fixture(scope="module")
def ports():
    command = [sys.executable, str(SERVER), "http"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        yield [int(port) for port in server.stdout.readline().split()]
        server.kill()


@pytest.fixture
def port(ports):
    return ports[0]


def call(port, tool="forecast", arguments=CITY, host="127.0.0.1", **target):
    target = {"private": True, "mcp": f"http://{host}:{port}/mcp", **target}
    return call_server(tool, arguments, Target(**target))


def test_a_call_goes_to_one_of_several_addresses_that_answers(ports, monkeypatch):
    assert call(ports[0]) == RAIN
    if ports[1]:
        assert call(ports[1], host="[::1]") == RAIN
    resolve_to(monkeypatch, "localhost", ["127.0.0.2", "127.0.0.1"])
    assert call(ports[0], host="localhost") == RAIN


def test_an_answer_is_bounded_and_a_private_address_needs_permission(port, monkeypatch):
    with pytest.raises(CallError, match="aborted: it sends more than 4 MB"):
        call(port, "flood", {})
    with pytest.raises(CallError, match="not public"):
        call(port, private=False)
    monkeypatch.setattr(mcp, "CALL_TIME", 0.5)
    with pytest.raises(CallError, match=r"did not answer in 0\.5 s"):
        call(port, "dither", {})


def test_a_credential_that_is_echoed_is_hidden(port, monkeypatch):
    monkeypatch.setenv("WEATHER_KEY", "a-long-secret")
    said = call(port, "tell", {}, credential={"variable": "WEATHER_KEY"})
    assert "Bearer ***" in said and "a-long-secret" not in said


FLOOD = """
import sys
try:
    while True:
        sys.stdout.write("x" * 65536)
except OSError:
    pass
"""
SILENT = "import sys; sys.stdin.read()"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ((sys.executable, "-c", FLOOD), "aborted: one message is over"),
        ((sys.executable, "-c", SILENT), r"did not answer in 2 s"),
        (("/no/such/program",), "started: No such file"),
    ],
)
def test_a_server_that_does_not_answer_is_given_up(monkeypatch, command, said):
    monkeypatch.setattr(mcp, "CALL_TIME", 2)
    with pytest.raises(CallError, match=said):
        call_server("forecast", {}, Target(command=command))


def test_only_secrets_of_the_environment_are_hidden(monkeypatch):
    command = (sys.executable, str(SERVER))
    for variable, value, shown in (
        ("WEATHER_KEY", "hunter2-hunter2", "***"),
        ("WEATHER_ZONE", "Pacific/Auckland", "Pacific/Auckland"),
    ):
        monkeypatch.setenv(variable, value)
        target = Target(command=command, environment={"NAME": variable})
        told = call_server("forecast", CITY, target)
        assert told == f"Rain in Oslo, says {shown}."


def test_a_call_ends_though_the_end_of_its_session_is_not_answered(monkeypatch):
    done = Event()

    def answer(method, path, headers, body):
        asked = json.loads(body or "{}")
        if method == "GET":
            return 405, {}, b""
        if method == "DELETE" or asked["method"] == "tools/call":
            done.wait(20)
        if asked.get("method") != "initialize":
            return 202, {}, b""
        result = {
            "protocolVersion": asked["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "mute", "version": "1"},
        }
        headers = {"Content-Type": "application/json", "Mcp-Session-Id": "1"}
        said = {"jsonrpc": "2.0", "id": asked["id"], "result": result}
        return 200, headers, json.dumps(said).encode()

    monkeypatch.setattr(mcp, "CALL_TIME", 0.5)
    with serving(answer) as (address, came):
        target = Target(mcp=address, private=True)
        began = monotonic()
        with pytest.raises(CallError, match=r"did not answer in 0\.5 s"):
            call_server("forecast", CITY, target)
        done.set()
    assert "DELETE" in [method for method, *_ in came]
    assert monotonic() - began < 10


UNPACKED = 50_000_000
BOMB = gzip.compress(b'"' + b"x" * UNPACKED + b'"', 1)


@pytest.fixture(scope="module")
def bombs():
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    with serving(lambda *_: (200, headers, BOMB)) as served:
        yield served


def test_an_mcp_server_may_not_compress(bombs):
    address, came = bombs
    target = Target(mcp=address, private=True)
    with pytest.raises(CallError, match="compressed"):
        call_server("forecast", {}, target)
    assert came[-1][2]["Accept-Encoding"] == "identity"


def test_an_api_is_bounded_in_what_it_unpacks_to(bombs):
    address, _ = bombs
    tracemalloc.start()
    target = Target(url=address, private=True)
    request = prepare_request(address, HttpCall(method="GET", path="/"), {})
    with pytest.raises(CallError, match="larger than 1,000,000 bytes"):
        asyncio.run(send(request, target))
    assert tracemalloc.get_traced_memory()[1] < UNPACKED / 2
    tracemalloc.stop()
