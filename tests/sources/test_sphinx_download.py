import re
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.sources.faults import answer
from tests.sources.resolving import resolve_to
from tests.sources.small_site import (
    ALL,
    FIRST,
    REST,
    crawl_small,
    failure,
    forget,
    list_only,
    names,
)
from tests.sources.sphinx_server import SiteServer
from toolbank.sources.sphinx.crawl import count
from toolbank.system import http
from toolbank.system.errors import InputError, ToolbankError


def test_stays_on_the_site(small, tmp_path):
    with SiteServer(tmp_path / "site") as other:
        small.redirects[FIRST] = f"{other.url}small.f0.html"
        result = crawl_small(small)
        assert failure(result).startswith(f"leads to another site, {other.url}")
        assert not other.asked
    assert names(result) == REST


def test_follows_a_page_that_moved_on_the_site(small):
    Path("site/small.f0.html").rename("site/moved.html")
    small.redirects[FIRST] = f"{small.url}moved.html"
    assert names(crawl_small(small)) == ALL


def test_redirects_that_never_end_are_told(small):
    small.redirects[FIRST] = FIRST
    small.redirects |= {
        f"/small.f1.html{n * 'x'}": f"/small.f1.html{(n + 1) * 'x'}" for n in range(9)
    }
    result = crawl_small(small)
    assert failure(result) == f"redirected in a loop, led to {small.url}small.f0.html"
    assert failure(result, "/small.f1.html").startswith("redirected too often, led to")
    assert sum(path == FIRST for path in small.asked) <= 6


STUB = '<html><head><meta http-equiv="refresh" content="0; url={}"></head></html>'


def test_a_stub_is_followed_within_the_site_and_once(small):
    pages = Path("site")
    (pages / "small.f0.html").rename(pages / "moved.html")
    (pages / "small.f0.html").write_text(STUB.format("moved.html"))
    (pages / "small.f1.html").write_text(STUB.format("https://other.example/f1.html"))
    (pages / "small.f2.html").write_text(STUB.format("again.html"))
    (pages / "again.html").write_text(STUB.format("moved.html"))
    (pages / "small.f3.html").write_text(STUB.format("dead.html"))
    result = crawl_small(small)
    assert names(result) == ["f0"]
    assert count(result)["failed_pages"] == {
        "small.f1.html": "a stub that leads to another site, https://other.example/f1.html",
        "small.f2.html": f"a stub that leads to a stub, {small.url}again.html",
        "small.f3.html": f"HTTP status 404, led to {small.url}dead.html",
    }


SIGNS = "\x1b(0\x07\x9b31m\u202e"


@pytest.mark.parametrize("place", ["host", "path", "type", "packing", "loop"])
@pytest.mark.parametrize("how", ["redirect", "stub"])
def test_a_reason_holds_no_sign_that_steers_a_terminal(small, place, how):
    target = f"http://{SIGNS}.example/" if place == "host" else f"/{SIGNS}"
    if place == "type":
        small.answers[FIRST] = answer(b"", content_type=f"text/{SIGNS}")
    elif place == "packing":
        small.answers[FIRST] = answer(b"", content_encoding=SIGNS)
    elif how == "redirect":
        small.answers[FIRST] = answer(b"", "302 \x1b[31m", location=target)
    else:
        small.answers[FIRST] = answer(STUB.format(target).encode())
    if place == "loop":
        small.answers[quote(target, safe="/(")] = small.answers[FIRST]
    reason = failure(crawl_small(small, retries=0))
    assert reason.isprintable(), reason
    loops = {"redirect": "redirected in a loop", "stub": "a stub that leads to a stub"}
    assert place != "loop" or reason.startswith(loops[how])


def test_a_redirect_to_what_is_no_address_is_told(small):
    small.redirects[FIRST] = "http://]/"
    small.redirects["/small.f1.html"] = "http://x:y/"
    small.redirects["/small.f2.html"] = "ftp://x/"
    result = crawl_small(small)
    assert failure(result) == "led to what is no address"
    assert failure(result, "/small.f1.html") == "led to what is no address"
    assert failure(result, "/small.f2.html") == "HTTP status 302"


@pytest.fixture
def public_url(small, monkeypatch):
    """The site by a public name, which resolves to this machine."""
    resolve_to(monkeypatch, "docs.example", ["127.0.0.1"])
    return small.url.replace("127.0.0.1", "docs.example")


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "169.254.169.254", "10.0.0.1", "100.64.0.1", "0.0.0.0", "::1"),
        *("::ffff:127.0.0.1", "fe80::1"),
    ],
)
def test_no_public_name_leads_to_a_private_one(small, public_url, monkeypatch, address):
    resolve_to(monkeypatch, "docs.example", [address, "127.0.0.1"])
    with pytest.raises(InputError, match=f"at a private address, {re.escape(address)}"):
        crawl_small(small, public_url)
    assert small.connections == 0


def test_a_public_site_is_read(small, public_url, monkeypatch):
    monkeypatch.setattr(http, "is_public_ip", lambda _: True)
    list_only("f0")
    assert names(crawl_small(small, public_url, delay_s=0)) == ["f0"]
    assert all(agent.startswith("toolbank/") for agent in small.agents)


def test_a_refused_connection_is_no_refused_address(small, public_url, monkeypatch):
    list_only("f0", "f1", "f2")
    crawl_small(small, public_url, private_addresses=True, delay_s=0)
    forget(FIRST)
    forget("/small.f1.html")
    small.stop()
    answers = iter([False])  # as if the name led elsewhere the next time
    monkeypatch.setattr(http, "is_public_ip", lambda _: next(answers, True))
    result = crawl_small(small, public_url, concurrency=1, retries=0, delay_s=0)
    assert failure(result) == (
        "at a private address, 127.0.0.1; if that is meant, --private-addresses, or "
        "crawl.private_addresses in a recipe, lets it in"
    )
    assert failure(result, "/small.f1.html") == "connection refused"


def test_numbers_that_stand_for_an_address_are_no_way_around(small):
    with pytest.raises(ToolbankError, match="no address that can be asked"):
        crawl_small(small, small.url.replace("127.0.0.1", "127.1"), retries=0)
    assert small.connections == 0


def test_a_redirect_to_this_machine_is_refused(small, public_url, tmp_path):
    list_only("f0", "f1", "f2")
    with SiteServer(tmp_path / "site") as inside:
        small.redirects[FIRST] = f"{inside.url}small.f0.html"
        small.redirects["/small.f1.html"] = f"{small.url}small.f1.html"
        result = crawl_small(small, public_url, private_addresses=True, delay_s=0)
        assert inside.connections == 0
    assert failure(result).startswith("leads to another site, http://127.0.0.1")
    assert failure(result, "/small.f1.html").startswith("leads to another site")
    assert names(result) == ["f2"], "which the user let in"


def test_a_proxy_of_the_environment_is_used(small, monkeypatch):
    monkeypatch.setenv("http_proxy", small.url)
    # What a proxy is asked for is the whole address.
    with pytest.raises(InputError, match="no inventory there"):
        crawl_small(small, "http://docs.example/")
    files = ("robots.txt", "objects.inv")
    assert small.asked == [f"http://docs.example/{file}" for file in files]


@pytest.mark.parametrize("name", ["docs.example", "docs.internal", "docs"])
def test_a_certificate_of_nobody_is_refused(small, tmp_path, monkeypatch, name):
    small.use_own_certificate(tmp_path)
    resolve_to(monkeypatch, name, ["127.0.0.1"])
    url = small.url.replace("http:", "https:").replace("127.0.0.1", name)
    with pytest.raises(InputError, match="certificate can't be trusted"):
        crawl_small(small, url, private_addresses=True)
    assert not small.asked


def test_a_site_on_this_machine_needs_no_certificate(small, tmp_path):
    small.use_own_certificate(tmp_path)
    assert names(crawl_small(small, small.url.replace("http:", "https:"))) == ALL
