"""The examples of agents, each by its vendor's client against a server that speaks the protocol."""

import asyncio
import json
import re
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import pytest

from tests.search.calls.apis import running
from tests.search.packed.packs import TOOLS, write_pack
from toolbank import load
from toolbank.bank.records import McpCall, Tool

pytestmark = pytest.mark.slow

REQUEST = "put a song on"
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@contextmanager
def answering(rule):
    """A server of `rule`, from a request's body to an answer; its URL, and what came.

    A failed assertion of the rule is a 400 with what it says.
    """
    came = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            came.append(body)
            try:
                status, answer = 200, rule(body)
            except AssertionError as error:
                status, answer = 400, {"error": {"message": str(error)}}
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    with running(Handler) as address:
        yield address, came


@pytest.fixture
def finder(tmp_path):
    write_pack(tmp_path)
    return load(tmp_path)


def test_claude_searches_by_references_and_calls_what_they_name(finder):
    pytest.importorskip("anthropic")
    from anthropic import Anthropic
    from anthropic.types import MessageCreateParams
    from pydantic import TypeAdapter

    from examples.agents.anthropic_search import run

    def rule(body):
        TypeAdapter(MessageCreateParams).validate_python(body)
        tools = {tool["name"]: tool for tool in body["tools"]}
        assert len(tools) == len(TOOLS) + 1
        assert all(NAME.fullmatch(name) for name in tools)
        [search] = [tool for tool in tools.values() if not tool.get("defer_loading")]
        said = body["messages"]
        if len(said) == 1:
            return answer("tool_use", search["name"], {"query": said[0]["content"]})
        [result] = said[-1]["content"]
        [use] = [one for one in said[-2]["content"] if one["type"] == "tool_use"]
        assert result["tool_use_id"] == use["id"]
        if use["name"] == search["name"]:
            names = [one["tool_name"] for one in result["content"]]
            assert {one["type"] for one in result["content"]} == {"tool_reference"}
            assert set(names) <= set(tools), "a tool reference to no tool"
            return answer("tool_use", names[0], {"title": "So what"})
        return answer("end_turn", text=f"Done: {result['content']}")

    def answer(reason, name="", arguments=None, text=""):
        use = {"type": "tool_use", "id": "toolu_1", "name": name, "input": arguments}
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude",
            "content": [{"type": "text", "text": text}] if text else [use],
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }

    with answering(rule) as (url, came):
        said = run(Anthropic(base_url=url, api_key="none"), finder, REQUEST)
    assert said == 'Done: music.play was called with {"title": "So what"}'
    assert len(came) == 3


def test_openai_searches_at_the_client_and_calls_what_it_was_given(finder):
    pytest.importorskip("openai")
    from openai import OpenAI
    from openai.types.responses import ResponseCreateParams
    from pydantic import TypeAdapter

    from examples.agents.openai_search import run

    def rule(body):
        TypeAdapter(ResponseCreateParams).validate_python(body)
        [search] = body["tools"]
        assert (search["type"], search["execution"]) == ("tool_search", "client")
        last = body["input"][-1]
        if last.get("role") == "user":
            call = {"type": "tool_search_call", "id": "ts_1", "execution": "client"}
            return answer(
                call | {"call_id": "c1", "arguments": {"query": last["content"]}}
            )
        if last["type"] == "tool_search_output":
            assert last["call_id"] == "c1"
            assert all(NAME.fullmatch(tool["name"]) for tool in last["tools"])
            call = {"type": "function_call", "id": "fc_1", "call_id": "c2"}
            name = last["tools"][0]["name"]
            return answer(call | {"name": name, "arguments": '{"title": "So what"}'})
        assert last["call_id"] == "c2"
        text = {
            "type": "output_text",
            "text": f"Done: {last['output']}",
            "annotations": [],
        }
        return answer(
            {"type": "message", "id": "m", "role": "assistant", "content": [text]}
        )

    def answer(item):
        return {
            "id": "resp_1",
            "object": "response",
            "created_at": 0,
            "model": "gpt",
            "output": [item | {"status": "completed"}],
            "parallel_tool_calls": False,
            "tool_choice": "auto",
            "tools": [],
        }

    with answering(rule) as (url, came):
        said = run(OpenAI(base_url=url, api_key="none"), finder, REQUEST)
    assert said == 'Done: music.play was called with {"title": "So what"}'
    assert len(came) == 3


def test_a_langchain_agent_shows_the_model_what_fits_and_runs_it(finder):
    pytest.importorskip("langchain")
    from langchain_openai import ChatOpenAI

    from examples.agents.langchain_search import run

    def rule(body):
        names = [tool["function"]["name"] for tool in body["tools"]]
        assert names[0] == "music_play"
        assert len(names) < len(TOOLS)
        last = body["messages"][-1]
        if last["role"] == "user":
            function = {"name": names[0], "arguments": "{}"}
            return answer(
                "tool_calls", [{"id": "c1", "type": "function", "function": function}]
            )
        assert (last["role"], last["tool_call_id"]) == ("tool", "c1")
        return answer("stop", text=f"Done: {last['content']}")

    def answer(reason, calls=None, text=None):
        message = {"role": "assistant", "content": text, "tool_calls": calls}
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": "gpt",
            "choices": [choice],
        }

    with answering(rule) as (url, came):
        model = ChatOpenAI(model="gpt", base_url=url, api_key="none")
        said = run(model, finder, REQUEST)
    assert said == "Done: music.play was called with {}"
    assert len(came) == 2


def test_clients_of_a_fastmcp_server_find_and_call_its_tools(tmp_path):
    pytest.importorskip("fastmcp")
    from fastmcp import Client, FastMCP

    from examples.agents.fastmcp_search import FinderSearch

    server = FastMCP("home")

    @server.tool
    def play(title: str) -> str:
        """Play a song."""
        return f"{title} is on"

    @server.tool
    def lock() -> str:
        """Lock the door of a house."""
        return "locked"

    gone = ("unlock", "Unlock the song of a door.")
    packed = [("play", "Play a song."), ("lock", "Lock the door of a house."), gone]
    tools = [
        Tool(
            name=f"home.{name}",
            summary=summary,
            kind="operation",
            call=McpCall(source="home", tool=name),
        )
        for name, summary in packed
    ]
    write_pack(tmp_path, tools)
    server.add_transform(FinderSearch(load(tmp_path)))

    async def session():
        async with Client(server) as client:
            listed = {tool.name for tool in await client.list_tools()}
            found = await client.call_tool("search_tools", {"query": REQUEST})
            called = {"name": "play", "arguments": {"title": "So what"}}
            return listed, found, await client.call_tool("call_tool", called)

    listed, found, called = asyncio.run(session())
    assert listed == {"search_tools", "call_tool"}
    names = [one["name"] for one in json.loads(found.content[0].text)]
    assert names[0] == "play"
    assert "unlock" not in names
    assert called.content[0].text == "So what is on"
