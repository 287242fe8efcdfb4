"""Who may ask a server, and from where; the page, which shows text of strangers as text."""

import re
import socket
from importlib.resources import files

import pytest

from tests.commands.in_process import toolbank
from tests.search.packed.packs import write_pack
from tests.search.serve.servers import KEY
from toolbank.search.serve.app import make_access

AUTHORIZATIONS = ("Bearer wrong", f"Basic {KEY}", KEY, "Bearer \u00e9")
GUARDED = """
/search?q=song /metrics /tools/mail.send /x /tools/GET%20%2Fstorms%2F /tools/GET%20/storms/
/tools/mail.send/page.js /tools//page.css /home/tools/ /search/ /mcp/ // /other/
/home//page.js /healthz/ /home/healthz
"""


@pytest.mark.parametrize(
    "headers", [{}, *({"Authorization": one} for one in AUTHORIZATIONS)]
)
@pytest.mark.parametrize("path", GUARDED.split())
def test_without_the_key_nothing_is_told(locked, path, headers):
    answer = locked.ask(path, **headers)
    assert (answer.status, answer.error) == (401, "unauthorized")
    assert KEY not in str(answer)


def test_with_the_key_it_answers_and_health_and_the_page_need_none(locked):
    assert locked.ask("/search?q=song", Authorization=f"Bearer {KEY}").status == 200
    assert locked.ask(f"/search?q=song&key={KEY}").status == 401
    assert locked.ask("/healthz").status == 200
    for path in ("/", "/page.js", "/page.css", "/home/", "/home/page.js"):
        assert locked.ask(path).status == 200
        assert locked.ask(path, {}).error == "unauthorized", "only reading is free"


ROUTES = "/search?q=song /tools/mail.send /facets /nearest?q=song /healthz /metrics"
ROUTES += " /openapi.json / /page.js /nothing"
POSTED = [
    ("/search", {"queries": ["song"]}),
    ("/feedback", {"search": "a", "tool": "b"}),
    ("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
]


@pytest.mark.parametrize(
    ("path", "body"), [*((path, None) for path in ROUTES.split()), *POSTED]
)
def test_other_names_and_origins_are_refused_on_every_route(server, path, body):
    answered = server.ask(path, body).status
    assert answered != 403
    hosts = f"evil.example evil.example:{server.port} [ [::1 a]b 127.0.0.1:99x"
    hosts += " evil.example@127.0.0.1 127.0.0.1/evil.example"
    origins = f"http://[ http://evil.example@127.0.0.1:{server.port} null"
    origins += f" http://evil.example http://localhost:{server.port + 1}"
    wrong = [{"Host": host} for host in ("", *hosts.split())]
    for headers in (*wrong, *({"Origin": origin} for origin in origins.split())):
        answer = server.ask(path, body, **headers)
        assert (answer.status, answer.error) == (403, "forbidden"), headers
    for headers in (
        {"Origin": f"http://127.0.0.1:{server.port}"},
        {"Host": f"localhost:{server.port}"},
        {"Host": f"[::1]:{server.port}"},
    ):
        assert server.ask(path, body, **headers).status == answered, headers


def test_no_other_origin_may_read_an_answer_and_the_page_needs_none(server):
    headers = {name.lower(): value for name, value in server.ask("/").headers.items()}
    assert not [name for name in headers if name.startswith("access-control")]
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "http" not in policy
    assert headers["x-content-type-options"] == "nosniff"


PAGE = files("toolbank.search.serve") / "page"


def test_the_page_and_its_files_are_served(server):
    page = server.ask("/")
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for name in re.findall(r'(?:src|href)="([^"]+)"', page.body.decode()):
        if not name.startswith("data:"):
            assert server.ask(f"/{name}").status == 200
            assert server.ask(f"/post/{name}").status == 200
    assert server.ask("/post").status == 307


def test_nothing_on_the_page_becomes_markup_or_code():
    script = (PAGE / "page.js").read_text()
    ways = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\(|srcdoc"
    assert not re.search(ways, script)
    page = (PAGE / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*src=)|\son\w+=|javascript:|<style", page)
    assert not re.search(r"https?://", page)


def test_blanks_around_a_key_do_not_count():
    assert make_access("0.0.0.0", f" {KEY}\n", [], without_key=False).key == KEY


@pytest.mark.parametrize(
    ("given", "key", "place", "remedy"),
    [
        ("nothing-here", "", "nothing-here", ""),
        ("search={pack}", "", "search=", "NAME=DIR"),
        ("a={pack} a={pack}", "", "'a'", "NAME=DIR"),
        ("a=", "", "a=", "NAME=DIR"),
        ("{pack} --pin zebra", "", "zebra", ""),
        ("{pack} --host 203.0.113.7 --no-key", "", "203.0.113.7", "--host"),
        ("{pack} --host 0.0.0.0", "", "0.0.0.0", "TOOLBANK_API_KEY"),
        *(
            ("{pack} --port 0", key, "TOOLBANK_API_KEY", "ASCII")
            for key in ("   ", "schl\u00fcssel", "a\nb")
        ),
        ("{pack} --port {taken}", "", "127.0.0.1:{taken}", "--port"),
        ("{pack} --log-text", "", "--log-text", "--log"),
        ("{pack} --mcp --port 0", "", "--port", ""),
    ],
)
def test_a_wrong_option_is_refused(tmp_path, monkeypatch, given, key, place, remedy):
    monkeypatch.setenv("TOOLBANK_API_KEY", key)
    write_pack(tmp_path / "pack")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        given = given.format(pack=tmp_path / "pack", taken=port)
        done = toolbank("serve", *given.split(), cwd=tmp_path)
    assert done.returncode == 2
    assert place.format(taken=port) in done.stderr and remedy in done.stderr
