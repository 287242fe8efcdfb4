"""What a server has open stays open between the calls of an agent."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.search.calls.apis import serving
from toolbank.search.calls import CallError, Target, mcp, read_targets
from toolbank.search.calls.mcp import McpSessions

SERVER = Path(__file__).with_name("weather_server.py")
STARTED = Target(command=(sys.executable, str(SERVER)))


@contextmanager
def served(port=0):
    command = [sys.executable, str(SERVER), "http", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield int(server.stdout.readline().split()[0])
        finally:
            server.kill()


def run(agent):
    async def act():
        sessions = McpSessions()
        try:
            return await agent(sessions)
        finally:
            await sessions.close()

    return asyncio.run(act())


async def note(sessions, target, text="rain", **more):
    """The number of notes, and the process that has them."""
    result = await sessions.call("note", {"text": text}, target, **more)
    number, _, _, process = result.content[0].text.split()
    return int(number), int(process)


async def wait_until_gone(process):
    async with asyncio.timeout(20):
        while Path(f"/proc/{process}").exists():
            await asyncio.sleep(0.02)


def test_calls_share_a_session_and_calls_at_once_do_too():
    async def agent(sessions):
        both = [note(sessions, STARTED) for _ in range(2)]
        first = await asyncio.gather(*both)
        again = await note(sessions, STARTED)
        assert sorted(number for number, _ in [*first, again]) == [1, 2, 3]
        assert len({process for _, process in [*first, again]}) == 1
        return again[1]

    process = run(agent)
    assert not Path(f"/proc/{process}").exists()


def test_an_answer_keeps_its_kinds_and_progress_is_told():
    told = []

    async def tell(progress, total, message):
        told.append((progress, total, message))

    async def agent(sessions):
        result = await sessions.call("note", {"text": "sun"}, STARTED, tell)
        wrong = await sessions.call("complain", {}, STARTED)
        return result, wrong

    result, wrong = run(agent)
    _, picture, link = result.content
    assert (picture.data, picture.mime_type) == ("aGVsbG8=", "image/png")
    assert str(link.uri) == "file:///notes.txt" and not result.is_error
    assert told == [(1, 2, "written")]
    assert wrong.is_error and "complain" in wrong.content[0].text


def test_a_server_that_was_killed_starts_again():
    async def agent(sessions):
        _, first = await note(sessions, STARTED)
        os.kill(first, signal.SIGKILL)
        await wait_until_gone(first)
        number, second = await note(sessions, STARTED)
        assert number == 1 and second != first
        with pytest.raises(
            CallError, match=r"has ended\. The next call starts it again"
        ):
            await sessions.call("fall", {}, STARTED)
        assert (await note(sessions, STARTED))[0] == 1

    run(agent)


def test_a_refusal_keeps_the_session_and_secrets_are_hidden(monkeypatch):
    monkeypatch.setenv("WEATHER_KEY", "a-long-secret")
    named = {"NAME": "WEATHER_KEY"}
    target = Target(command=STARTED.command, environment=named)
    told = []

    async def tell(progress, total, message):
        told.append(message)

    async def agent(sessions):
        _, first = await note(sessions, target)
        with pytest.raises(CallError, match=r"refuses the call: not for \*\*\*$"):
            await sessions.call("leak", {}, target, tell)
        assert told == ["by ***"]
        assert await note(sessions, target) == (2, first)

    run(agent)


@pytest.mark.slow
def test_a_server_that_floods_between_calls_is_ended():
    async def agent(sessions):
        result = await sessions.call("babble", {}, STARTED)
        await wait_until_gone(result.content[0].text)
        assert (await note(sessions, STARTED))[0] == 1

    run(agent)


@pytest.mark.slow
def test_each_of_many_calls_at_once_may_have_a_large_answer():
    async def agent(sessions):
        calls = [sessions.call("describe", {}, STARTED) for _ in range(16)]
        return await asyncio.gather(*calls)

    assert {len(one.content[0].text) for one in run(agent)} == {900_000}


def test_calls_that_wait_for_a_start_fail_when_the_session_is_ended():
    mute = Target(command=(sys.executable, "-c", "import sys; sys.stdin.read()"))

    async def agent(sessions):
        calls = [asyncio.create_task(sessions.call("note", {}, mute)) for _ in range(2)]
        await asyncio.sleep(0)
        async with asyncio.timeout(20):
            await sessions.close()
            said = await asyncio.gather(*calls, return_exceptions=True)
        assert [str(one) for one in said] == [
            "The server cannot be called: its session was ended."
        ] * 2

    run(agent)


def test_a_cancelled_call_leaves_the_session_to_others():
    async def agent(sessions):
        _, first = await note(sessions, STARTED)
        waiting = asyncio.create_task(sessions.call("dither", {}, STARTED))
        await asyncio.sleep(0.1)
        waiting.cancel()
        assert await note(sessions, STARTED) == (2, first)

    run(agent)


def test_a_server_that_refuses_each_new_session_fails_the_call():
    def answer(method, path, headers, body):
        asked = json.loads(body or "{}")
        if asked.get("method") == "tools/call":
            return 404, {}, b""
        if asked.get("method") != "initialize":
            return 202, {}, b""
        result = {
            "protocolVersion": asked["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "forgetful", "version": "1"},
        }
        sent = {"Content-Type": "application/json", "Mcp-Session-Id": "1"}
        said = {"jsonrpc": "2.0", "id": asked["id"], "result": result}
        return 200, sent, json.dumps(said).encode()

    async def agent(sessions):
        with serving(answer) as (address, came), pytest.raises(CallError) as refusal:
            await sessions.call("note", {}, Target(mcp=address, private=True))
        assert "refuses each session" in str(refusal.value)
        assert sum(b"tools/call" in (body or b"") for *_, body in came) == 2

    run(agent)


def test_a_session_over_http_goes_on_after_the_server_was_started_again():
    async def agent(sessions):
        with served() as port:
            target = Target(mcp=f"http://127.0.0.1:{port}/mcp", private=True)
            assert [(await note(sessions, target))[0] for _ in range(2)] == [1, 2]
        with pytest.raises(CallError, match="cannot be reached"):
            await note(sessions, target)
        with served(port):
            assert (await note(sessions, target))[0] == 1

    run(agent)


@pytest.mark.slow
def test_idle_and_surplus_sessions_end(monkeypatch):
    monkeypatch.setattr(mcp, "MOST_SESSIONS", 2)
    others = [
        Target(command=(sys.executable, str(SERVER), f"--{number}"))
        for number in range(2)
    ]

    async def agent(sessions):
        _, first = await note(sessions, STARTED)
        for other in others:
            await note(sessions, other)
        await wait_until_gone(first)
        monkeypatch.setattr(mcp, "IDLE_TIME", 0)
        _, last = await note(sessions, others[0])
        await wait_until_gone(last)

    run(agent)


def test_a_clients_own_file_says_where_calls_go(tmp_path, monkeypatch):
    monkeypatch.setenv("WEATHER_NAME", f"ghp_{'a1B2' * 9}")
    entry = {
        "command": sys.executable,
        "args": [str(SERVER)],
        "env": {"NAME": "${WEATHER_NAME}"},
    }
    file = tmp_path / "mcp.json"
    with served() as port:
        remote = {"url": f"http://localhost:{port}/mcp"}
        servers = {"weather": entry, "remote": remote, "off": {"disabled": True}}
        file.write_text(json.dumps({"mcpServers": servers}))
        targets = read_targets([file])

        async def agent(sessions):
            answers = [
                await sessions.call("forecast", {"city": "Oslo"}, targets[name])
                for name in ("weather", "remote")
            ]
            return [answer.content[0].text for answer in answers]

        assert sorted(targets) == ["remote", "weather"]
        assert run(agent) == [f"Rain in Oslo, says {one}." for one in ("***", "nobody")]
