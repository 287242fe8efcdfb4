"""Clients that are slow, many, or send what is no request: they are told, and the others are served."""

import asyncio
import json
import socket
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import uvicorn
from starlette.responses import PlainTextResponse

from tests.search.packed.packs import write_pack
from tests.search.serve.servers import serving
from toolbank.search.serve import server as servers


def send(server, raw, wait=30):
    """What comes back until the server closes the connection."""
    with socket.create_connection((server.host, server.port), timeout=wait) as one:
        one.sendall(raw)
        return receive(one)


def receive(connection):
    answer = b""
    while part := connection.recv(65536):
        answer += part
    return answer


def head(server, line, *fields):
    named = [f"Host: {server.host}:{server.port}", "Connection: close", *fields]
    return "\r\n".join([line, *named, "", ""]).encode("latin-1")


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
    try:
        answer = send(server, raw)
    except ConnectionError:
        answer = b""
    if answer:
        assert answer.startswith(b"HTTP/1.1 400")
        error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
        assert error["code"] == "bad_request" and error["message"]
    assert server.ask("/search?q=song").status == 200


@contextmanager
def answering(app, most=100):
    """A server in this process; its address."""
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
        asked = f"GET / HTTP/1.1\r\nHost: {address[0]}\r\n\r\n".encode()
        kept = [socket.create_connection(address, timeout=30) for _ in range(2)]
        for one in kept:
            one.sendall(asked)
        time.sleep(0.5)
        with socket.create_connection(address, timeout=30) as third:
            answer = receive(third)
        go_on.set()
        for one in kept:
            assert b"200 OK" in one.recv(65536)
            one.close()
    assert answer.startswith(b"HTTP/1.1 503")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "busy"


@pytest.mark.parametrize(
    "begun", [b"", b"GET / HTTP/1.1\r\nHost: a", b"POST / HTTP/1.1\r\n", b"\r\n"]
)
def test_who_asks_for_nothing_gives_way_to_who_does(begun):
    with answering(PlainTextResponse("here"), most=3) as address:
        asked = f"GET / HTTP/1.1\r\nHost: {address[0]}\r\n\r\n".encode()
        kept = socket.create_connection(address, timeout=30)
        kept.sendall(asked)
        assert b"200 OK" in kept.recv(65536)
        idle = [socket.create_connection(address, timeout=30) for _ in range(9)]
        for one in idle:
            with suppress(ConnectionError):
                one.sendall(begun)
        with socket.create_connection(address, timeout=30) as late:
            late.sendall(asked)
            assert b"200 OK" in late.recv(65536)
        # Who was served before keeps the connection before those that never asked.
        kept.sendall(asked)
        assert b"200 OK" in kept.recv(65536)
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
        pytest.param("-n 256", 1_000, marks=pytest.mark.slow),
        pytest.param("-n 300", 2_500, marks=pytest.mark.slow),
    ],
)
def test_idle_connections_leave_the_server_to_others(tmp_path, limit, many):
    write_pack(tmp_path)
    with serving(tmp_path, limit=limit) as server:
        at = (server.host, server.port)
        idle = [socket.create_connection(at, timeout=30) for _ in range(many)]
        for _ in range(5):
            assert server.ask("/search?q=song").status == 200
        assert 0 < count_alive(idle) < int(limit[3:])
        answer = server.ask("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert answer.status < 500
        for one in idle:
            one.close()
        server.process.terminate()
        said = server.process.stderr.read()
        assert server.process.wait(60) == 0
    assert said.count("(Said once.)") == 1 and "Traceback" not in said
    assert "limit of open files" in said


def test_the_limit_of_open_files_is_raised_as_far_as_may_be(tmp_path):
    write_pack(tmp_path)
    with serving(tmp_path, limit="-Sn 128") as server:
        at = (server.host, server.port)
        idle = [socket.create_connection(at, timeout=30) for _ in range(300)]
        assert server.ask("/search?q=song").status == 200
        assert count_alive(idle) == 300
        for one in idle:
            one.close()


@pytest.mark.parametrize("kept", ["keep-alive", "close"])
def test_who_does_not_take_what_is_answered_is_cut_off(monkeypatch, kept):
    monkeypatch.setattr(servers, "_TAKE_TIME", 0.2)
    with (
        answering(PlainTextResponse("x" * 20_000_000)) as address,
        socket.create_connection(address, timeout=30) as deaf,
    ):
        named = f"Host: {address[0]}\r\nConnection: {kept}"
        deaf.sendall(f"GET / HTTP/1.1\r\n{named}\r\n\r\n".encode())
        time.sleep(1)
        got = 0
        with suppress(ConnectionResetError):
            while part := deaf.recv(65536):
                got += len(part)
    assert got < 20_000_000


ODD = {
    "/search?q=%ff%fe": 400,
    "/search?q=%00song": 200,
    "/search?q=" + "%F0%9F%8E%B5" * 900: 200,
    "/tools/%00%ff": 404,
    "/tools/..%2f..%2fetc%2fpasswd": 404,
}


@pytest.mark.parametrize(("address", "status"), ODD.items())
def test_odd_texts_are_texts(server, address, status):
    answer = server.ask(address)
    assert answer.status == status, answer.body
    assert ("error" in answer.json) == (status != 200)


@pytest.mark.parametrize(
    "fields",
    [
        ("Content-Type: application/json", "Content-Length: 10000000"),
        ("Content-Type: application/json", "Transfer-Encoding: chunked"),
    ],
)
def test_ten_megabytes_are_refused_before_they_are_read(server, fields):
    chunked = "chunked" in fields[1]
    part = b"a" * 100_000
    body = (
        (b"186a0\r\n" + part + b"\r\n") * 100 + b"0\r\n\r\n" if chunked else part * 100
    )
    with socket.create_connection((server.host, server.port), timeout=30) as one:
        one.sendall(head(server, "POST /search HTTP/1.1", *fields))
        try:
            one.sendall(body)
            answer = one.recv(65536)
        except ConnectionError:
            return
    assert answer.startswith(b"HTTP/1.1 413")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"]


def test_who_leaves_within_a_body_is_counted_and_writes_no_log(tmp_path):
    write_pack(tmp_path)
    accept = "Accept: application/json, text/event-stream"
    whole = {"Content-Length: 900000": b"{", "Transfer-Encoding: chunked": b"5\r\n{"}
    paths = ("/search", "/feedback", "/mcp")
    with serving(tmp_path, "--log", tmp_path / "log.jsonl") as server:
        for path in paths:
            for field, begun in whole.items():
                fields = ("Content-Type: application/json", accept, field)
                raw = head(server, f"POST {path} HTTP/1.1", *fields) + begun
                at = (server.host, server.port)
                with socket.create_connection(at, timeout=30) as one:
                    one.sendall(raw)
        count = 0
        until = time.monotonic() + 30
        while count < len(paths) * len(whole) and time.monotonic() < until:
            lines = server.ask("/metrics").body.decode().splitlines()
            left = [line for line in lines if 'status="499"' in line]
            count = sum(int(line.split()[-1]) for line in left)
        assert server.ask("/search?q=song").status == 200
        server.process.terminate()
        said = server.process.stderr.read()
        assert server.process.wait(60) == 0
    assert count == len(paths) * len(whole)
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
    write_pack(tmp_path)
    with serving(tmp_path) as server:
        begun = head(server, "POST /search HTTP/1.1", "Content-Type: application/json")
        kinds = {
            "silent": b"",
            "half a head": begun[:40],
            "half a second head": head(server, "GET /healthz HTTP/1.1").replace(
                b"close", b"keep-alive"
            )
            + begun[:40],
            "no body": begun[:-2] + b"Content-Length: 30\r\n\r\n" + b'{"que',
        }
        waiting = {}
        for name, raw in kinds.items():
            waiting[name] = [
                socket.create_connection((server.host, server.port), timeout=40)
                for _ in range(100)
            ]
            for one in waiting[name]:
                one.sendall(raw)
        # One that asks, and never reads what comes.
        deaf = socket.create_connection((server.host, server.port), timeout=40)
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        asked = head(server, "GET /openapi.json HTTP/1.1").replace(
            b"close", b"keep-alive"
        )
        deaf.setblocking(False)
        try:
            for _ in range(10_000):
                deaf.send(asked)
        except (BlockingIOError, ConnectionError):
            pass
        assert server.ask("/search?q=song").status == 200
        for name, connections in waiting.items():
            for one in connections:
                answer = receive(one)
                right = b"200" if name == "half a second head" else b"408"
                assert not answer or answer.startswith(b"HTTP/1.1 " + right), name
                one.close()
        assert server.ask("/search?q=song").status == 200
        assert resident(server.process) < 400
        deaf.close()
