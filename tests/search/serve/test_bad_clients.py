"""Clients that are slow, many, or send what is no request: they are told, and the others are served."""

import asyncio
import json
import socket
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path

import pytest
import uvicorn
from starlette.responses import PlainTextResponse

from tests.search.packed.packs import write_pack
from tests.search.serve.servers import serving
from toolbank.search.serve import app as guard
from toolbank.search.serve import server as servers
from toolbank.search.serve.app import Access


def connect(server):
    at = server if isinstance(server, tuple) else (server.host, server.port)
    return socket.create_connection(at, timeout=40)


def receive(connection):
    """What comes back until the server closes the connection."""
    answer = b""
    while part := connection.recv(65536):
        answer += part
    return answer


def error_of(answer):
    return json.loads(answer.partition(b"\r\n\r\n")[2])["error"]


def head(server, line, *fields):
    named = [f"Host: {server.host}:{server.port}", "Connection: close", *fields]
    return "\r\n".join([line, *named, "", ""]).encode("latin-1")


GET = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
JSON = "Content-Type: application/json"


@pytest.mark.parametrize(
    "raw",
    [
        b"\x00\xff\xfe no request at all\r\n\r\n",
        b"GET /search?q=song\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 50 + b"\r\n\r\n",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X-Much: much\r\n" * 20_000 + b"\r\n",
    ],
)
def test_what_is_no_request_is_refused_and_the_server_goes_on(server, raw):
    answer = b""
    with suppress(ConnectionError), connect(server) as one:
        one.sendall(raw)
        answer = receive(one)
    if answer:
        assert answer.startswith(b"HTTP/1.1 400")
        assert error_of(answer)["code"] == "bad_request"
    assert server.ask("/search?q=song").status == 200


@contextmanager
def answering(app, most=100):
    listening = servers.open_socket("127.0.0.1", 0)
    config = uvicorn.Config(app, http=servers._Patient, log_config=None, lifespan="off")
    server = servers._BoundedServer(config, most)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield listening.getsockname()
    finally:
        server.should_exit = True
        thread.join()


def test_connections_too_many_are_told_and_closed():
    go_on = threading.Event()

    async def app(scope, receive, send):
        await asyncio.to_thread(go_on.wait, 30)
        await PlainTextResponse("here")(scope, receive, send)

    with answering(app, most=2) as address:
        kept = [connect(address) for _ in range(2)]
        for one in kept:
            one.sendall(GET)
        time.sleep(0.5)
        with connect(address) as third:
            answer = receive(third)
        go_on.set()
        for one in kept:
            assert b"200 OK" in one.recv(65536)
            one.close()
    assert answer.startswith(b"HTTP/1.1 503")
    assert error_of(answer)["code"] == "busy"


@pytest.mark.parametrize(
    "begun", [b"", b"GET / HTTP/1.1\r\nHost: a", b"POST / HTTP/1.1\r\n", b"\r\n"]
)
def test_who_asks_for_nothing_gives_way_to_who_does(begun):
    def ask(connection):
        connection.sendall(GET)
        assert b"200 OK" in connection.recv(65536)

    with answering(PlainTextResponse("here"), most=3) as address:
        kept = connect(address)
        ask(kept)
        idle = [connect(address) for _ in range(9)]
        for one in idle:
            with suppress(ConnectionError):
                one.sendall(begun)
        with connect(address) as late:
            ask(late)
        ask(kept)
        for one in (kept, *idle):
            one.close()


def count_alive(connections):
    alive = 0
    for one in connections:
        one.setblocking(False)
        try:
            while one.recv(65536):
                pass
        except BlockingIOError:
            alive += 1
        except ConnectionError:
            pass
    return alive


@pytest.mark.parametrize(
    ("limit", "many"),
    [
        ("-n 100", 150),
        pytest.param("-n 64", 90, marks=pytest.mark.slow),
        pytest.param("-n 300", 2_500, marks=pytest.mark.slow),
    ],
)
def test_idle_connections_leave_the_server_to_others(tmp_path, limit, many):
    write_pack(tmp_path)
    with serving(tmp_path, limit=limit) as server:
        idle = [connect(server) for _ in range(many)]
        for _ in range(5):
            assert server.ask("/search?q=song").status == 200
        assert 0 < count_alive(idle) < int(limit[3:])
        answer = server.ask("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert answer.status < 500
        for one in idle:
            one.close()
        said = server.end()
    assert said.count("(Said once.)") == 1 and "Traceback" not in said
    assert "limit of open files" in said


def test_the_limit_of_open_files_is_raised_as_far_as_may_be(tmp_path):
    write_pack(tmp_path)
    with serving(tmp_path, limit="-Sn 128") as server:
        idle = [connect(server) for _ in range(300)]
        assert server.ask("/search?q=song").status == 200
        assert count_alive(idle) == 300
        for one in idle:
            one.close()


@pytest.mark.parametrize("kept", [b"keep-alive", b"close"])
def test_who_does_not_take_what_is_answered_is_cut_off(monkeypatch, kept):
    monkeypatch.setattr(servers, "_TAKE_TIME", 0.2)
    with (
        answering(PlainTextResponse("x" * 20_000_000)) as address,
        connect(address) as deaf,
    ):
        deaf.sendall(GET[:-2] + b"Connection: " + kept + b"\r\n\r\n")
        time.sleep(1)
        got = 0
        with suppress(ConnectionResetError):
            while part := deaf.recv(65536):
                got += len(part)
    assert got < 20_000_000


@pytest.mark.parametrize("chunked", [False, True])
def test_ten_megabytes_are_refused_before_they_are_read(server, chunked):
    size = "Transfer-Encoding: chunked" if chunked else "Content-Length: 10000000"
    part = b"a" * 100_000
    body = part * 100
    if chunked:
        body = (b"186a0\r\n" + part + b"\r\n") * 100 + b"0\r\n\r\n"
    with connect(server) as one:
        one.sendall(head(server, "POST /search HTTP/1.1", JSON, size))
        try:
            one.sendall(body)
            answer = one.recv(65536)
        except ConnectionError:
            return
    assert answer.startswith(b"HTTP/1.1 413")
    assert error_of(answer)["message"]


def test_who_leaves_within_a_body_is_counted_and_writes_no_log(tmp_path):
    write_pack(tmp_path)
    accept = "Accept: application/json, text/event-stream"
    whole = {"Content-Length: 900000": b"{", "Transfer-Encoding: chunked": b"5\r\n{"}
    paths = ("/search", "/feedback", "/mcp")
    with serving(tmp_path, "--log", tmp_path / "log.jsonl") as server:
        for path, (field, start) in product(paths, whole.items()):
            with connect(server) as one:
                fields = (f"POST {path} HTTP/1.1", JSON, accept, field)
                one.sendall(head(server, *fields) + start)
        count, until = 0, time.monotonic() + 30
        while count < 6 and time.monotonic() < until:
            lines = server.ask("/metrics").body.decode().splitlines()
            left = [line for line in lines if 'status="499"' in line]
            count = sum(int(line.split()[-1]) for line in left)
        assert server.ask("/search?q=song").status == 200
        said = server.end()
    assert count == 6
    assert "Traceback" not in said


def resident(process):
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def test_a_thousand_at_once_are_answered_and_memory_stays(tmp_path):
    write_pack(tmp_path)

    async def ask(server, number):
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(head(server, f"GET /search?q=song+number+{number} HTTP/1.1"))
        answer = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        start, _, body = answer.partition(b"\r\n\r\n")
        status = int(start.split()[1])
        said = json.loads(body)
        assert "hits" in said if status == 200 else said["error"]["message"]
        return status

    async def ask_all(server):
        return Counter(await asyncio.gather(*(ask(server, n) for n in range(1_000))))

    with serving(tmp_path) as server:
        asyncio.run(ask_all(server))
        before = resident(server.process)
        statuses = asyncio.run(ask_all(server))
        assert resident(server.process) < before + 100
    assert set(statuses) <= {200, 503}
    assert statuses[200] >= 500


@pytest.mark.slow
def test_slow_clients_are_cut_off_and_the_others_are_served(tmp_path):
    def keep_alive(path):
        return head(server, f"GET {path} HTTP/1.1").replace(b"close", b"keep-alive")

    write_pack(tmp_path)
    with serving(tmp_path) as server:
        begun = head(server, "POST /search HTTP/1.1", JSON)
        kinds = {
            "silent": b"",
            "half a head": begun[:40],
            "half a second head": keep_alive("/healthz") + begun[:40],
            "no body": begun[:-2] + b"Content-Length: 30\r\n\r\n" + b'{"que',
        }
        waiting = [(name, connect(server)) for name in kinds for _ in range(100)]
        for name, one in waiting:
            one.sendall(kinds[name])
        # One that asks, and never reads what comes.
        deaf = connect(server)
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        deaf.setblocking(False)
        with suppress(BlockingIOError, ConnectionError):
            for _ in range(10_000):
                deaf.send(keep_alive("/openapi.json"))
        assert server.ask("/search?q=song").status == 200
        for name, one in waiting:
            answer = receive(one)
            right = b"200" if name == "half a second head" else b"408"
            assert not answer or answer.startswith(b"HTTP/1.1 " + right), name
            one.close()
        assert server.ask("/search?q=song").status == 200
        assert resident(server.process) < 400
        deaf.close()


def test_a_body_that_drips_is_given_up_at_one_deadline(monkeypatch):
    monkeypatch.setattr(guard, "BODY_TIME", 0.2)
    parts, sent, counted = [], [], []

    async def drip():
        await asyncio.sleep(0.01)
        parts.append(b"a")
        return {"type": "http.request", "body": b"a", "more_body": len(parts) < 500}

    async def read_all(scope, receive, send):
        while (await receive())["more_body"]:
            pass

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"transfer-encoding", b"chunked")]
    scope = {"type": "http", "method": "POST", "path": "/search", "headers": headers}
    guarded = guard.Guard(read_all, Access(), frozenset(), counted.append)
    asyncio.run(guarded(scope, drip, send))
    assert sent[0]["status"] == 408
    assert json.loads(sent[1]["body"])["error"]["code"] == "request_timeout"
    assert counted == [408]
    assert len(parts) < 500
