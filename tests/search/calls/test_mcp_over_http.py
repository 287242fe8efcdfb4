"""Calls to an MCP server over HTTP: to a checked address, and no more of an answer than may be."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from aiohttp.resolver import ThreadedResolver

from toolbank.search.calls import mcp
from toolbank.search.calls.config import CallError, Target
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


def resolve_to(monkeypatch, *addresses):
    """Have each lookup of a name give the next address; the hosts that were asked for."""
    left, asked = list(addresses), []

    async def resolve(self, host, port=0, family=0):
        asked.append(host)
        return [{"host": left.pop(0) if len(left) > 1 else left[0], "port": port}]

    monkeypatch.setattr(ThreadedResolver, "resolve", resolve)
    return asked


def test_a_call_is_passed_on(port):
    assert call(port) == "Rain in Oslo."


def test_a_private_address_needs_leave(port):
    with pytest.raises(CallError, match="not a public one"):
        call(port, private=False)


def test_a_name_that_means_this_machine_is_refused(port, monkeypatch):
    resolve_to(monkeypatch, "127.0.0.1")
    with pytest.raises(CallError, match="not a public one"):
        call(port, host="weather.example", private=False)


def test_a_name_is_not_looked_up_again_by_what_connects(port, monkeypatch):
    # Only this lookup knows the name: were there another, nothing would be found.
    asked = resolve_to(monkeypatch, "127.0.0.1")
    try:
        said = call(port, host="weather.example")
    except CallError as error:
        # The server itself may refuse a Host that is not its own: it was reached, then.
        said = str(error)
    assert asked
    assert "can't be reached (ConnectError)" not in said


def test_a_flood_is_cut_off(port):
    with pytest.raises(CallError, match="given up: it sends more than 4 MB"):
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
    found = [{"host": host, "port": port} for host in ("127.0.0.2", "127.0.0.1")]

    async def resolve(*_):
        return found

    monkeypatch.setattr(ThreadedResolver, "resolve", resolve)
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
