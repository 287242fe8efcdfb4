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
