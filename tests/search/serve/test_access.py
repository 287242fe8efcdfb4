"""Who may ask a server, and from where."""

import socket
import subprocess
import sys

import pytest

from tests.search.packed.packs import write_pack
from tests.search.serve.servers import KEY
from toolbank.search.serve.app import make_access


def run(*arguments):
    command = [sys.executable, "-m", "toolbank", "serve", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {KEY}"},
        {"Authorization": KEY},
        {"Authorization": "Bearer \u00e9"},
    ],
)
@pytest.mark.parametrize(
    "path",
    [
        "/search?q=song",
        "/metrics",
        "/tools/mail.send",
        "/x",
        "/tools/GET%20%2Fstorms%2F",
        "/tools/GET%20/storms/",
        "/tools/mail.send/page.js",
        "/tools//page.css",
        "/home/tools/",
        "/search/",
        "/mcp/",
        "//",
        "/other/",
        "/home//page.js",
        "/healthz/",
        "/home/healthz",
    ],
)
def test_without_the_key_nothing_is_told(locked, path, headers):
    answer = locked.ask(path, **headers)
    assert (answer.status, answer.error) == (401, "unauthorized")
    assert KEY not in str(answer)


def test_with_the_key_it_answers(locked):
    assert locked.ask("/search?q=song", Authorization=f"Bearer {KEY}").status == 200
    assert locked.ask(f"/search?q=song&key={KEY}").status == 401


@pytest.mark.parametrize("path", ["/", "/page.js", "/healthz"])
def test_only_reading_the_page_needs_no_key(locked, path):
    assert locked.ask(path, {}).error == "unauthorized"


def test_health_and_the_page_need_no_key(locked):
    assert locked.ask("/healthz").status == 200
    for path in ("/", "/page.js", "/page.css", "/home/", "/home/page.js"):
        assert locked.ask(path).status == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/search?q=song", None),
        ("/search", {"queries": ["song"]}),
        ("/tools/mail.send", None),
        ("/facets", None),
        ("/nearest?q=song", None),
        ("/feedback", {"search": "a", "tool": "b"}),
        ("/healthz", None),
        ("/metrics", None),
        ("/openapi.json", None),
        ("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
        ("/", None),
        ("/page.js", None),
        ("/nothing", None),
    ],
)
def test_other_names_and_origins_are_refused_on_every_route(server, path, body):
    answered = server.ask(path, body).status
    assert answered != 403
    for headers in (
        {"Host": "evil.example"},
        {"Host": f"evil.example:{server.port}"},
        {"Host": ""},
        {"Host": "["},
        {"Host": "[::1"},
        {"Host": "a]b"},
        {"Host": "127.0.0.1:99x"},
        {"Host": "evil.example@127.0.0.1"},
        {"Host": "127.0.0.1/evil.example"},
        {"Origin": "http://["},
        {"Origin": f"http://evil.example@127.0.0.1:{server.port}"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://localhost:{server.port + 1}"},
    ):
        answer = server.ask(path, body, **headers)
        assert (answer.status, answer.error) == (403, "forbidden"), headers
    for headers in (
        {"Origin": f"http://127.0.0.1:{server.port}"},
        {"Host": f"localhost:{server.port}"},
        {"Host": f"[::1]:{server.port}"},
    ):
        assert server.ask(path, body, **headers).status == answered, headers


def test_no_other_origin_may_read_an_answer(server):
    headers = {name.lower(): value for name, value in server.ask("/").headers.items()}
    assert not [name for name in headers if name.startswith("access-control")]
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


def test_an_address_that_others_reach_needs_a_key(tmp_path, monkeypatch):
    monkeypatch.delenv("TOOLBANK_API_KEY", raising=False)
    write_pack(tmp_path)
    done = run(tmp_path, "--host", "0.0.0.0")
    assert done.returncode == 2
    assert "TOOLBANK_API_KEY" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("key", ["   ", "schl\u00fcssel", "a\nb"])
def test_a_key_that_no_client_can_send_is_refused(tmp_path, monkeypatch, key):
    write_pack(tmp_path)
    monkeypatch.setenv("TOOLBANK_API_KEY", key)
    done = run(tmp_path, "--port", "0")
    assert done.returncode == 2
    assert "no client can send this key" in done.stderr


def test_blanks_around_a_key_do_not_count():
    assert make_access("0.0.0.0", f" {KEY}\n", [], without_key=False).key == KEY


def test_a_port_in_use_is_told(tmp_path):
    write_pack(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(tmp_path, "--port", port)
    assert done.returncode == 2
    assert f"127.0.0.1:{port}: in use already" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["nothing-here"], "nothing-here"),
        (["search={pack}"], "can't be the name of a finder"),
        (["a={pack}", "a={pack}"], "there is a finder 'a' already"),
        (["{pack}", "--pin", "zebra"], "zebra: can't be pinned"),
        (
            ["{pack}", "--host", "203.0.113.7", "--no-key"],
            "not an address of this machine",
        ),
        (["{pack}", "--log-text"], "--log-text goes with --log"),
        (["a="], "a=: the folder is missing"),
        (["{pack}", "--mcp"], "--port is of HTTP"),
    ],
)
def test_what_cannot_be_served_is_told(tmp_path, given, said):
    write_pack(tmp_path / "pack")
    done = run(*(text.format(pack=tmp_path / "pack") for text in given), "--port", "0")
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
