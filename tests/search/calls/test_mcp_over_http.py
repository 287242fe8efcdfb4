"""Calls to an MCP server over HTTP: to a checked address, and no more of an answer than may be."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sources.resolving import resolve_to
from toolbank.search.calls import CallError, Target, mcp
from toolbank.search.calls.mcp import send_to_mcp

SERVER = Path(__file__).with_name("weather_over_http.py")
CITY = {"city": "Oslo"}


@pytest.fixture(scope="module")
def ports():
    command = [sys.executable, str(SERVER)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        yield [int(port) for port in server.stdout.readline().split()]
        server.kill()


@pytest.fixture
def port(ports):
    return ports[0]


def call(port, tool="forecast", arguments=CITY, host="127.0.0.1", private=True):
    target = Target(mcp=f"http://{host}:{port}/mcp", private=private)
    return asyncio.run(send_to_mcp(tool, arguments, target))


def test_a_call_is_passed_on(port):
    assert call(port) == "Rain in Oslo."


def test_a_private_address_needs_leave(port):
    with pytest.raises(CallError, match="not public"):
        call(port, private=False)


def test_a_name_that_means_this_machine_is_refused(port, monkeypatch):
    resolve_to(monkeypatch, "weather.example", ["127.0.0.1"])
    with pytest.raises(CallError, match="not public"):
        call(port, host="weather.example", private=False)


def test_a_flood_is_cut_off(port):
    with pytest.raises(CallError, match="aborted: it sends more than 4 MB"):
        call(port, "flood", {})


def test_a_server_that_never_answers_is_given_up(port, monkeypatch):
    monkeypatch.setattr(mcp, "CALL_TIME", 0.5)
    with pytest.raises(CallError, match=r"did not answer in 0\.5 s"):
        call(port, "dither", {})


def test_a_server_may_have_an_address_of_ipv6_alone(ports):
    if not ports[1]:
        pytest.skip("the machine has no IPv6")
    assert call(ports[1], host="[::1]") == "Rain in Oslo."


def test_of_several_addresses_one_that_answers_is_enough(port, monkeypatch):
    resolve_to(monkeypatch, "localhost", ["127.0.0.2", "127.0.0.1"])
    assert call(port, host="localhost") == "Rain in Oslo."


def test_a_credential_that_is_echoed_is_hidden(port, monkeypatch):
    monkeypatch.setenv("WEATHER_KEY", "a-long-secret")
    target = Target(
        mcp=f"http://127.0.0.1:{port}/mcp",
        credential={"variable": "WEATHER_KEY"},
        private=True,
    )
    said = asyncio.run(send_to_mcp("tell", {}, target))
    assert "Bearer ***" in said
    assert "a-long-secret" not in said
