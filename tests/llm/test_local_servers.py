"""Servers with few slots and long queues: how many calls go at once, and what is said meanwhile."""

import asyncio
import socket
import threading
import time
from contextlib import contextmanager

import pytest

from tests.llm.test_openai import config
from tests.llm.virtual import Memory, carry
from tests.servers.chat import Answer, ChatServer
from tests.servers.wire import Wire, WireServer
from toolbank.llm import caller
from toolbank.llm.engines import find_engine
from toolbank.llm.engines.kind import EngineContext
from toolbank.llm.engines.openai.engine import read_slots
from toolbank.llm.pool import Pool
from toolbank.llm.step import _show_progress
from toolbank.testing.engines import polish_request as request

GOOD = Answer.json({"query": "fine"}).body
OLLAMA = {"models": [{"name": "m:1b", "expires_at": "2026-11-02T08:15:34Z"}]}


def lm_studio(key, parallel, name="loaded"):
    instance = {"id": name, "config": {"context_length": 4096, "parallel": parallel}}
    return {"models": [{"key": key, "loaded_instances": [instance]}]}


SAYS = {
    "llama.cpp": ({"/props": {"total_slots": 6, "model_path": "x"}}, 6),
    "LM Studio": ({"/api/v1/models": lm_studio("asked-model", 3)}, 3),
    "by instance": ({"/api/v1/models": lm_studio("x", 5, "asked-model")}, 5),
    "other model": ({"/api/v1/models": lm_studio("other", 3)}, 1),
    "Ollama": ({"/api/ps": OLLAMA}, 1),
    "nothing": ({}, 1),
    "nonsense": ({"/props": {"total_slots": "many"}, "/api/ps": ["models"]}, 1),
}


def ask(url, calls, **settings):
    """The replies to calls that a pool makes, and the pool."""
    settings = config(url, **{"api_key_env": None, **settings})
    got = {}

    async def attempt(pool, number):
        with pool.attempt() as attempts:
            try:
                got[number] = await attempts.ask(request(number))
            except Exception as error:
                got[number] = error

    async def talk():
        context = EngineContext()
        pool = Pool(find_engine(settings), settings, Memory(), context)
        with _show_progress("queries", lambda: (len(got), 0), pool, calls):
            await carry(pool, (attempt(pool, n) for n in range(calls)))
        return pool

    pool = asyncio.run(talk())
    return [got.get(n) for n in range(calls)], pool


@pytest.mark.parametrize("kind", SAYS)
def test_a_local_server_is_sent_as_many_calls_at_once_as_it_says(kind):
    says, slots = SAYS[kind]
    in_flight, most, lock = 0, [], threading.Lock()

    def script(call):
        nonlocal in_flight
        with lock:
            in_flight += 1
            most.append(in_flight)
        time.sleep(0.15)
        with lock:
            in_flight -= 1
        return Answer.json({"query": "fine"})

    with ChatServer(script) as server:
        server.says = says
        got, _ = ask(server.url, 8)
    assert [reply.finish for reply in got] == ["stop"] * 8
    first = most[: min(slots + 1, 8)]
    assert max(first) == slots


def test_a_number_of_the_user_asks_no_server_what_it_can_do():

    with ChatServer(lambda call: Answer.json({"query": "fine"})) as server:
        server.says = {"/props": {"total_slots": 6}}
        _, pool = ask(server.url, 2, concurrency=2)
        assert pool.limit.now == 2


@pytest.mark.parametrize("said", [b"", b"[]", b"7", b'{"models": 3}', b"[" * 9999])
def test_no_answer_about_slots_can_make_reading_fail(said):
    assert read_slots(said, "m") is None


def test_the_time_of_a_call_starts_anew_with_its_first_byte():
    def pieces(*spaces):
        return Wire.chunked([*spaces, GOOD], pause=0.6)

    # In the queue for 0.6 s, and then 1.2 s until the last byte.
    with WireServer(lambda _: pieces()) as server:
        (reply,), _ = ask(server.url, 1, timeout=1.5)
        assert reply.finish == "stop"
        (late,), _ = ask(server.url, 1, timeout=0.3, retries=0)
    assert late.reason == "timeout"
    with WireServer(lambda _: pieces(*[b" "] * 9)) as server:
        (cut,), _ = ask(server.url, 1, timeout=1.0, retries=0)
        assert cut.reason == "timeout"
        (cut,), _ = ask(server.url, 1, timeout=1.0, total_timeout=1.2, retries=0)
    assert "`timeout`" in str(cut)


@pytest.mark.parametrize("calls", [1, 3])
def test_a_silent_endpoint_is_named_once(calls, capsys, monkeypatch):
    monkeypatch.setattr(caller, "SILENT_S", 0.3)
    with ChatServer(lambda call: Answer(200, GOOD, delay=0.9)) as server:
        ask(server.url, calls)
        said = capsys.readouterr().err
        assert said.count("waiting for") == 1
        assert f"{server.url}: 1 call in flight" in said
    monkeypatch.setattr(caller, "SILENT_S", 5)
    with ChatServer(lambda call: Answer(200, GOOD, delay=0.1)) as server:
        ask(server.url, 8)
        assert "waiting" not in capsys.readouterr().err


@contextmanager
def stalled():
    """A server that takes the head of a request, and then reads no more."""
    with socket.create_server(("127.0.0.1", 0), backlog=9) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"


def test_an_upload_that_makes_no_progress_ends(tmp_path, monkeypatch):
    """More than the buffers of both sockets hold."""
    from toolbank.llm.engines.batch.endpoint import BatchEndpoint

    path = tmp_path / "round.jsonl"
    path.write_bytes(b"x" * 30_000_000)

    async def upload(url):
        endpoint = BatchEndpoint(config(url, total_timeout=0.5, api_key_env=None))
        try:
            async with asyncio.timeout(20):
                await endpoint.upload(path, path.name)
        finally:
            await endpoint.close()

    with stalled() as url, pytest.raises(Exception, match="`total_timeout`") as caught:
        asyncio.run(upload(url))
    assert (caught.value.reason, caught.value.retryable) == ("timeout", True)
