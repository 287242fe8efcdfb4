"""Calls to an MCP server over HTTP: to a checked address, and no more of an answer than may be."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sources.resolving import resolve_to
from toolbank.search.calls import CallError, Target, mcp
from toolbank.search.calls.mcp import send_to_mcp

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
    return asyncio.run(send_to_mcp(tool, arguments, Target(**target)))


def test_a_call_is_passed_on_to_one_of_several_addresses_that_answers(
    ports, monkeypatch
):
    assert call(ports[0]) == RAIN
    if ports[1]:
        assert call(ports[1], host="[::1]") == RAIN
    resolve_to(monkeypatch, "localhost", ["127.0.0.2", "127.0.0.1"])
    assert call(ports[0], host="localhost") == RAIN


def test_an_answer_is_bounded_in_size_and_time(port, monkeypatch):
    with pytest.raises(CallError, match="aborted: it sends more than 4 MB"):
        call(port, "flood", {})
    monkeypatch.setattr(mcp, "CALL_TIME", 0.5)
    with pytest.raises(CallError, match=r"did not answer in 0\.5 s"):
        call(port, "dither", {})


def test_a_private_address_needs_leave(port):
    with pytest.raises(CallError, match="not public"):
        call(port, private=False)


def test_a_credential_that_is_echoed_is_hidden(port, monkeypatch):
    monkeypatch.setenv("WEATHER_KEY", "a-long-secret")
    said = call(port, "tell", {}, credential={"variable": "WEATHER_KEY"})
    assert "Bearer ***" in said and "a-long-secret" not in said
