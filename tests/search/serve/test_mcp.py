"""An agent finds tools, reads their schemas and calls them, over MCP."""

import json
import os
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
import yaml

from tests.commands.in_process import toolbank
from tests.search.packed.packs import FITTING, TOOLS, UNFITTING, write_pack
from tests.search.serve.servers import KEY, serving
from toolbank.bank.records import McpCall, Tool

pytest.importorskip("mcp", reason="the extra mcp is not installed")

from mcp import Client, StdioServerParameters

WEATHER = Path(__file__).parents[1] / "calls/weather_server.py"
CITY = {"properties": {"city": {"type": "string"}}, "required": ["city"]}
CALLED = tuple(
    Tool(
        name=f"weather/{name}",
        summary=summary,
        parameters={"type": "object", **CITY},
        call=McpCall(source="weather", tool=name),
    )
    for name, summary in {
        "forecast": "Tell the weather of a city.",
        "make_rain": "Let it rain in a city.",
    }.items()
)


@pytest.fixture
def calling(tmp_path):
    """The arguments of a server that passes calls on to one of the weather."""
    write_pack(tmp_path / "finder", CALLED)
    config = tmp_path / "calls.yaml"
    target = {
        "command": [sys.executable, str(WEATHER)],
        "environment": {"NAME": "WEATHER_NAME"},
        "read_only": ["fore*"],
    }
    config.write_text(yaml.safe_dump({"sources": {"weather": target}}))
    return [tmp_path / "finder", "--call", "weather/*", "--call-config", config]


def by_stdio(*arguments, **environment):
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "toolbank", "serve", *map(str, arguments), "--mcp"],
        env={**os.environ, **environment},
    )


@asynccontextmanager
async def asking(where):
    async with Client(where) as client:

        async def ask(tool, **arguments):
            result = await client.call_tool(tool, arguments)
            if result.is_error or result.structured_content is None:
                return result.content[0].text if result.content else ""
            return result.structured_content

        yield client, ask


def test_an_agent_searches_and_reads_schemas_over_stdio(tmp_path):
    write_pack(tmp_path)

    async def session():
        async with asking(by_stdio(tmp_path, "--pin", "mail.read")) as (client, ask):
            listed = (await client.list_tools()).tools
            assert [tool.name for tool in listed] == ["search_tools", "describe_tool"]
            assert "mail.read" in listed[0].description
            min_score = listed[0].input_schema["properties"]["min_score"]
            assert min_score["type"] == "number" and "description" in min_score
            found = await ask("search_tools", query="send a letter", k=1)
            assert [hit["name"] for hit in found["hits"]] == ["mail.send"]
            assert found["pinned"][0]["name"] == "mail.read"
            for k in (1.5, True, "5", 0):
                wrong = await ask("search_tools", query="rain", k=k)
                assert "k: should be" in wrong and f"(got '{k}')" in wrong
            for query, said in ((" ", "query: is empty"), ("a" * 10_001, "10000")):
                assert said in await ask("search_tools", query=query)
            assert (await ask("search_tools", query="zebra"))["hits"] == []
            assert "'zebra'" in await ask("describe_tool", name="zebra")
            tool = await ask("describe_tool", name="get_weather")
            assert tool["parameters"] == TOOLS[4].parameters

    anyio.run(session)


def test_an_agent_searches_over_http(server, marking):
    async def session():
        for path in ("/mcp", "/post/mcp", "/post/mcp/"):
            async with asking(f"http://127.0.0.1:{server.port}{path}") as (_, ask):
                found = await ask("search_tools", query="send a letter")
                assert found["hits"][0]["name"] == "mail.send"
                assert found["calibrated"] is False
        async with asking(f"http://127.0.0.1:{marking.port}/mcp") as (client, ask):
            [search, *_] = (await client.list_tools()).tools
            assert "`fits` false" in search.description
            for asked, fits in ((FITTING, True), (UNFITTING, False)):
                for query in asked:
                    found = await ask("search_tools", query=query)
                    assert found["fits"] is fits and found["hits"]

    def count(start):
        lines = server.ask("/metrics").body.decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(start))

    searched = 'toolbank_search_seconds_count{finder="post"}'
    before = count(searched)
    anyio.run(session)
    assert count(searched) == before + 2
    assert count('toolbank_requests_total{route="/mcp",status="200"}') >= 2


def test_calls_go_where_the_file_says(calling):
    async def session(*more):
        where = by_stdio(*calling, *more, WEATHER_NAME="radio")
        async with asking(where) as (client, ask):
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names == ["search_tools", "describe_tool", "call_tool"]
            [hit, *_] = (await ask("search_tools", query="weather of a city"))["hits"]
            city = {"city": "Oslo"}
            said = await ask("call_tool", name=hit["name"], arguments=city)
            assert said["result"] == "Rain in Oslo, says radio."
            wrong = await ask("call_tool", name=hit["name"], arguments={})
            assert "'city' is a required property" in wrong
            return await ask("call_tool", name="weather/make_rain", arguments=city)

    assert "may change something" in anyio.run(session)
    assert anyio.run(session, "--call-writes") == {"result": "done"}


def test_what_an_agent_calls_counts_as_chosen(calling, tmp_path):
    log = tmp_path / "log.jsonl"

    async def session():
        where = by_stdio(*calling, "--log", log, "--log-text")
        async with asking(where) as (_, ask):
            found = await ask("search_tools", query="weather of a city")
            call = {"name": "weather/forecast", "search": found["id"]}
            said = await ask("call_tool", **call, arguments={"city": "Oslo"})
            assert "Rain" in said["result"]
            assert "required" in await ask("call_tool", **call, arguments={})

    anyio.run(session)
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert [row["event"] for row in rows] == ["search", "call", "choice", "call"]
    search, called, choice, failed = rows
    assert (called["client"], called["called"]) == ("mcp", "weather/forecast")
    assert (called["outcome"], failed["outcome"]) == ("answered", "failed")
    assert "Oslo" not in log.read_text()
    assert (search["event"], choice["tools"]) == ("search", ["weather/forecast"])
    assert search["query"] == choice["query"] == "weather of a city"


def test_over_http_calls_need_a_key(tmp_path):
    write_pack(tmp_path)
    refused = toolbank("serve", tmp_path, "--call", "*", "--port", "0", cwd=tmp_path)
    assert "Set TOOLBANK_API_KEY" in refused.stderr
    with serving(tmp_path, "--call", "get_*", key=KEY) as server:
        assert server.ask("/mcp", {}).status == 401


def test_over_stdio_a_newer_version_is_taken_at_a_hangup(tmp_path):
    write_pack(tmp_path / "finder")
    # A shell that tells its number, and becomes the server.
    script = f'echo $$ > {tmp_path}/pid; exec "$0" "$@"'
    server = by_stdio(tmp_path / "finder")
    where = StdioServerParameters(
        command="sh", args=["-c", script, server.command, *server.args], env=server.env
    )

    async def session():
        async with asking(where) as (client, ask):
            [described, _] = (await client.list_tools()).tools
            assert "among 8" in described.description
            assert "only orders the hits" in described.description
            write_pack(tmp_path / "finder", TOOLS[:4])
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGHUP)
            with anyio.fail_after(30):
                while "no tool" not in await ask("describe_tool", name="mail.send"):
                    await anyio.sleep(0.02)
            [described, _] = (await client.list_tools()).tools
            assert "among 4" in described.description

    anyio.run(session)


@pytest.mark.slow
def test_a_terminated_server_leaves_no_called_server_behind(calling, tmp_path):
    # One that goes on after its stdin has ended.
    script = f'echo $$ > {tmp_path}/called; "$0" "$1"; exec sleep 3600'
    config = tmp_path / "stubborn.yaml"
    target = {
        "command": ["sh", "-c", script, sys.executable, str(WEATHER)],
        "read_only": ["*"],
    }
    config.write_text(yaml.safe_dump({"sources": {"weather": target}}))
    served = by_stdio(*calling[:3], "--call-config", config)
    record = f'echo $$ > {tmp_path}/pid; exec "$0" "$@"'
    where = StdioServerParameters(
        command="sh", args=["-c", record, served.command, *served.args], env=served.env
    )

    async def session():
        async with asking(where) as (_, ask):
            found = await ask(
                "call_tool", name="weather/forecast", arguments={"city": "Oslo"}
            )
            assert "Rain in Oslo" in found["result"]
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGTERM)
            called = int((tmp_path / "called").read_text())
            with anyio.fail_after(30):
                while Path(f"/proc/{called}").exists():
                    await anyio.sleep(0.02)

    anyio.run(session)
