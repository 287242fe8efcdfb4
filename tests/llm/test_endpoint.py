"""What may come over the wire in place of a good answer, and what may not go over it."""

import asyncio
import gzip
import json
import subprocess
import sys
import zlib
from functools import partial
from textwrap import dedent

import pytest

from tests.llm.test_openai import answers as ask_in_turn
from tests.llm.test_openai import config
from tests.servers.chat import Answer
from tests.servers.named import forget_host, name_host
from tests.servers.wire import Wire, WireServer
from toolbank.llm.chat import ChatReply
from toolbank.llm.engines.openai.engine import MAX_REPLY_BYTES, OpenAIEngine
from toolbank.system.errors import InputError
from toolbank.testing.engines import polish_request as request

KEY = "sk-test/5f1c9a+b"
GOOD = Answer.json({"query": "fine"}).body
BIG = b'{"choices": "' + b"x" * (2 * MAX_REPLY_BYTES)

answers = partial(ask_in_turn, server=WireServer)


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def packed(body, how, level=9):
    if how == "gzip":
        return gzip.compress(body, level)
    wbits = -zlib.MAX_WBITS if how == "raw deflate" else zlib.MAX_WBITS
    packer = zlib.compressobj(level, wbits=wbits)
    return packer.compress(body) + packer.flush()


def encoded(body, encoding):
    return Wire.http(body, headers={"Content-Encoding": encoding})


def at_first(wire):
    """A script that sends something else, and then good answers."""
    return lambda call: Wire.http(GOOD) if call.number else wire


@pytest.mark.parametrize(
    "wire",
    [
        Wire.http(GOOD),
        Wire.chunked([GOOD[:10], GOOD[10:]]),
        Wire.http(GOOD, length=None, headers={"Content-Length": ""}, end="close"),
        encoded(packed(GOOD, "gzip"), "gzip"),
        encoded(packed(GOOD, "zlib"), "deflate"),
        encoded(packed(GOOD, "raw deflate"), "deflate"),
        encoded(GOOD, "identity"),
        Wire.http(GOOD, headers={"Content-Type": "text/plain"}),
    ],
)
def test_a_good_answer_is_read_however_it_is_packed(wire):
    (reply,), _ = answers(lambda call: wire)
    assert reply.text == '{"query": "fine"}'
    assert reply.latency > 0
    assert reply.pause == 0


@pytest.mark.parametrize(
    ("wire", "reason"),
    [
        (Wire((), end="reset"), "connection"),
        (Wire((), end="close"), "connection"),
        (Wire((b"SSH-2.0-OpenSSH_9.6\r\n",), end="close"), "connection"),
        (Wire.http(GOOD[:40], length=len(GOOD), end="reset"), "connection"),
        (Wire.http(GOOD, length=len(GOOD) + 9, end="close"), "connection"),
        (Wire((*Wire.chunked([GOOD]).pieces[:-1],), end="close"), "connection"),
        (Wire.http(GOOD, length=len(GOOD) - 9), "connection"),
        (Wire.http(GOOD[:-9]), "not-json-response"),
        (Wire.http(GOOD.replace(b"fine", b"\xff\xfe")), "not-json-response"),
        (encoded(GOOD, "br"), "unknown-encoding"),
        (encoded(packed(GOOD, "gzip"), "gzip, zz"), "unknown-encoding"),
        (encoded(GOOD, "gzip"), "broken-encoding"),
        (encoded(packed(GOOD, "gzip")[:40] + b"!" * 40, "gzip"), "broken-encoding"),
        (encoded(packed(GOOD, "gzip")[:60], "gzip"), "broken-encoding"),
    ],
)
def test_what_is_no_answer_has_a_reason_and_leaves_the_next_call_alone(wire, reason):
    (error, reply), _ = answers(at_first(wire), times=2)
    assert (error.reason, error.retryable, error.fatal) == (reason, True, False)
    assert "127.0.0.1" in str(error)
    assert reply.text == '{"query": "fine"}'


@pytest.mark.parametrize(
    "wire",
    [
        Wire.http(BIG),
        # Never more than its beginning is sent, so that nobody can wait for the rest.
        Wire.http(BIG[:500_000], length=10**12),
        Wire.chunked([BIG[i : i + 2**16] for i in range(0, len(BIG), 2**16)]),
        encoded(packed(BIG, "gzip"), "gzip"),
        encoded(packed(packed(BIG * 20, "gzip"), "gzip"), "gzip, gzip"),
    ],
    ids=["announced", "announced and hung", "chunked", "packed", "packed twice"],
)
def test_of_too_large_a_reply_the_beginning_is_kept(wire):
    (reply, other), _ = answers(at_first(wire), times=2)
    assert reply == ChatReply(BIG[:100_000].decode(), "asked-model", finish="too-large")
    assert other.finish == "stop"


def test_of_a_refusal_no_more_is_read_than_is_told():
    endless = Wire.http(b"no " * 200_000, 500, length=10**12)
    (error,), _ = answers(lambda call: endless)
    assert error.reason == "http-500"
    assert len(str(error)) < 500


def test_a_call_that_is_given_up_leaves_the_others_alone():
    async def talk(url):
        engine = OpenAIEngine(config(url, concurrency=2))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await engine.answer(request(0))
        replies = [await engine.answer(request(n)) for n in (1, 2)]
        await engine.close()
        return replies

    def script(call):
        return Wire.http(GOOD, pause=60 * (call.number == 0))

    with WireServer(script) as server:
        assert len(asyncio.run(talk(server.url))) == 2


@pytest.mark.parametrize(
    "echo", [KEY, "sk-test%2F5f1c9a%2Bb", "sk-test\\/5f1c9a+b", "%s"]
)
@pytest.mark.parametrize("status", [200, 400, 401, 404, 429, 500])
def test_an_echo_of_the_key_is_not_told(echo, status):
    body = json.dumps({"error": {"message": "the key is %s"}}).replace("%s", echo)
    (error,), _ = answers(lambda call: Wire.http(body.encode(), status))
    assert "5f1c9a" not in str(error)


PUBLIC = "http://llm.example.com/v1"


@pytest.fixture
def proxy(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with WireServer(lambda call: Wire.http(GOOD)) as server:
        monkeypatch.setenv("HTTP_PROXY", server.url.removesuffix("/v1"))
        name_host(PUBLIC)
        yield server
    forget_host(PUBLIC)


def call_through(url):
    (reply,), _ = answers(lambda call: Wire.http(GOOD), base_url=url)
    return reply


def test_a_proxy_of_the_environment_serves_public_endpoints_alone(proxy):
    for host in ("127.0.0.1", "localhost"):
        with WireServer(lambda call: Wire.http(GOOD)) as server:
            call_through(server.url.replace("127.0.0.1", host))
            assert len(server.calls) == 1
    assert not proxy.calls
    assert call_through(PUBLIC).text == '{"query": "fine"}'
    (call,) = proxy.calls
    assert call.path == f"{PUBLIC}/chat/completions"


def test_a_proxy_that_is_none_is_bad_input(proxy, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "ftp://127.0.0.1")
    with pytest.raises(InputError, match="HTTP_PROXY"):
        OpenAIEngine(config(PUBLIC))


def test_any_number_of_calls_run_side_by_side_over_connections_that_are_kept():
    async def talk(url):
        engine = OpenAIEngine(config(url, concurrency=200))
        for _ in range(2):
            await asyncio.gather(*(engine.answer(request(n)) for n in range(200)))
        await engine.close()

    # Had they waited for one another, they would have needed a minute and more.
    with WireServer(lambda call: Wire.http(GOOD, pause=0.3)) as server:
        asyncio.run(asyncio.wait_for(talk(server.url), 30))
        assert len(server.calls) == 400
        assert server.connections <= 200


@pytest.mark.parametrize("hard", [90, pytest.param(4000, marks=pytest.mark.slow)])
def test_no_more_connections_are_opened_than_the_system_allows(hard):
    """In a process of its own, whose limit of open files can be set."""
    script = """
        import asyncio, resource, sys
        from tests.llm.test_endpoint import config, request
        from toolbank.llm.engines.openai.engine import OpenAIEngine

        async def talk(url):
            engine = OpenAIEngine(config(url, concurrency=300))
            await asyncio.gather(*(engine.answer(request(0)) for _ in range(300)))
            await engine.close()

        resource.setrlimit(resource.RLIMIT_NOFILE, (80, int(sys.argv[2])))
        asyncio.run(talk(sys.argv[1]))
    """
    with WireServer(lambda call: Wire.http(GOOD, pause=0.2)) as server:
        subprocess.run(
            [sys.executable, "-c", dedent(script), server.url, str(hard)],
            check=True,
            timeout=60,
        )
        assert len(server.calls) == 300
        assert server.connections <= 45 or hard == 4000
