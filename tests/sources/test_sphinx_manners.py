"""How a crawl behaves on a site, and what it says of one that misbehaves."""

from __future__ import annotations

import json
import socket
from collections import Counter
from email.utils import formatdate
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from urllib.parse import quote

import pytest
from pydantic import ValidationError
from scrapy import Request
from scrapy.http import Response

from tests.sources import faults
from tests.sources.faults import answer
from tests.sources.small_site import FIRST, NOON, Hours, crawl_small, failure, names
from tests.sources.sphinx_server import PAGE, SiteServer, described, write_inventory
from toolbank.errors import InputError, ToolbankError
from toolbank.sources.conduct import Conduct
from toolbank.sources.config import SphinxSource
from toolbank.sources.sphinx import crawl_site
from toolbank.sources.sphinx.web import door
from toolbank.sources.sphinx.web.freshness import ServeKept
from toolbank.sources.sphinx.web.manners import crawl_settings

ALL = ["f0", "f1", "f2", "f3"]
REST = ALL[1:]
GOOD = PAGE.format(described("small.f0", "<p>Do it.</p>")).encode()


def test_tells_the_site_who_asks(small: SiteServer) -> None:
    crawl_small(small, contact="https://me.example/bot")
    assert len(small.agents) == 1
    agent = small.agents.pop()
    assert agent.startswith("toolbank/")
    assert agent.endswith(" (+https://me.example/bot)")


@pytest.mark.parametrize(
    "contact",
    [
        "me@x.example\r\nX-Evil: 1",
        "me@x.example\x00",
        "not reachable",
        "(me@x.example)",
    ],
)
def test_a_contact_that_would_break_the_header_is_refused(contact: str) -> None:
    with pytest.raises(ValidationError, match="mail address"):
        Conduct(contact=contact)


def test_a_public_site_is_asked_gently_and_a_private_one_at_full_speed(
    small: SiteServer,
) -> None:
    public = crawl_settings("https://numpy.org/doc/2.0/", "cache", Conduct())
    assert public["AUTOTHROTTLE_ENABLED"]
    assert public["DOWNLOAD_DELAY"] >= 0.25
    assert public["CONCURRENT_REQUESTS_PER_DOMAIN"] == 2
    assert public["GUARD_ADDRESSES"]
    private = crawl_settings(small.url, "cache", Conduct())
    assert not private["AUTOTHROTTLE_ENABLED"]
    assert private["DOWNLOAD_DELAY"] == 0
    slow = crawl_settings(small.url, "cache", Conduct(delay_s=1))
    assert slow["DOWNLOAD_DELAY"] == 1


def test_obeys_robots_txt(small: SiteServer) -> None:
    robots = Path("site/robots.txt")
    robots.write_text(f"User-agent: toolbank\nDisallow: {FIRST}\n\nUser-agent: *\n")
    result = crawl_small(small)
    assert failure(result) == "forbidden by robots.txt"
    assert FIRST not in small.asked
    assert names(result) == REST


def test_keeps_the_delay_that_robots_txt_asks_for(
    small: SiteServer, hours: Hours
) -> None:
    Path("site/robots.txt").write_text("User-agent: *\nCrawl-delay: 20\n")
    assert names(crawl_small(small, concurrency=1)) == ALL
    # The site's speed is not what is told here: a wait is what is left of the 20 s.
    assert hours.waits == [(20.0, asked) for asked in range(2, len(small.asked))]


def test_does_not_crawl_where_robots_txt_asks_for_too_long_a_delay(
    small: SiteServer,
) -> None:
    Path("site/robots.txt").write_text("User-agent: *\nCrawl-delay: 3600\n")
    with pytest.raises(ToolbankError, match=r"robots.txt asks for 3600 s"):
        crawl_small(small)
    assert small.asked == ["/robots.txt"]


def test_does_not_crawl_while_robots_txt_cant_be_had(small: SiteServer) -> None:
    small.statuses["/robots.txt"] = [503]
    with pytest.raises(
        ToolbankError, match=r"robots.txt can't be read: HTTP status 503"
    ):
        crawl_small(small, retries=0)
    assert set(small.asked) == {"/robots.txt"}


def test_obeys_what_a_robots_txt_without_end_says_first(small: SiteServer) -> None:
    rules = f"User-agent: *\nDisallow: {FIRST}\n"
    endless = rules + "Disallow: /else/where\n" * 200_000
    small.answers["/robots.txt"] = answer(endless.encode(), content_type="text/plain")
    result = crawl_small(small, page_mb=1)
    assert failure(result) == "forbidden by robots.txt"
    assert names(result) == REST
    small.asked.clear()
    assert names(crawl_small(small, page_mb=1)) == REST
    assert small.asked == []


def test_a_robots_txt_that_is_cut_off_forbids_nothing_by_its_last_line(
    small: SiteServer,
) -> None:
    start = "User-agent: *\n"
    padding = "#" * (500 * 1024 - len(f"{start}\nDisallow: /")) + "\n"
    text = f"{start}{padding}Disallow: /else/where\n"
    small.answers["/robots.txt"] = answer(text.encode())
    assert names(crawl_small(small)) == ALL


@pytest.mark.parametrize("kind", ["bomb", "elsewhere"])
def test_does_not_crawl_where_robots_txt_is_refused(
    small: SiteServer, tmp_path: Path, kind: str
) -> None:
    with SiteServer(tmp_path / "site") as other:
        if kind == "bomb":
            small.answers["/robots.txt"] = faults.bomb("gzip", unpacked_mb=3)
            why = "too large when unpacked"
        else:
            small.redirects["/robots.txt"] = f"{other.url}robots.txt"
            why = f"leads to another site, {other.url}robots.txt"
        with pytest.raises(InputError, match=f"robots.txt can't be read: {why}"):
            crawl_small(small, page_mb=1)
        assert not other.asked
    assert small.asked == ["/robots.txt"]


def test_a_page_that_fails_twice_is_tried_again(small: SiteServer) -> None:
    small.statuses[FIRST] = [503, 503, 200]
    assert names(crawl_small(small)) == ALL


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("after", ["100", formatdate(NOON + 100, usegmt=True)])
def test_a_site_that_asks_for_a_pause_is_left_alone_wholly(
    small: SiteServer, hours: Hours, status: int, after: str
) -> None:
    pause = answer(b"", f"{status} Wait", retry_after=after)
    small.answers[FIRST] = faults.in_turn(pause, answer(GOOD))
    assert names(crawl_small(small, concurrency=1)) == ALL
    before = small.asked.index(FIRST) + 1
    paused = [seconds for seconds, asked in hours.waits if asked == before]
    assert sum(paused) == 100, "no request at all during the pause"
    assert len(small.asked) == 2 + len(ALL) + 1


def test_a_site_that_asks_for_too_long_a_pause_is_left_for_another_day(
    small: SiteServer,
) -> None:
    small.answers["/small.f2.html"] = answer(b"", "503 No", retry_after="3600")
    result = crawl_small(small, concurrency=1)
    assert not result.complete
    why = "the site asked for a pause of 3600 s"
    assert any(why in line for line in result.problems)
    small.answers.clear()
    assert names(crawl_small(small)) == ALL


def test_a_site_that_is_gone_is_not_asked_for_every_page(
    small: SiteServer, tmp_path: Path
) -> None:
    objects = [("py:function", f"small.g{n}", f"g{n}.html#$") for n in range(200)]
    write_inventory(
        tmp_path / "site",
        [*objects, ("py:function", "small.f0", "small.f0.html#$")],
    )
    small.cut_off |= {f"/g{n}.html" for n in range(200)}
    with pytest.raises(ToolbankError, match="the site did not answer any more"):
        crawl_small(small, retries=0)
    assert len(small.asked) < 80, "and one more try each where a connection was reused"


def test_a_site_with_many_broken_pages_is_read_to_its_end(
    small: SiteServer, tmp_path: Path
) -> None:
    objects = [("py:function", f"small.g{n}", f"g{n}.html#$") for n in range(40)]
    write_inventory(
        tmp_path / "site",
        [*objects, ("py:function", "small.f0", "small.f0.html#$")],
    )
    for n in range(40):
        small.answers[f"/g{n}.html"] = answer(b"<p>", content_length="99")
    assert names(crawl_small(small, retries=0)) == ["f0"]


def test_stays_on_the_site(small: SiteServer, tmp_path: Path) -> None:
    with SiteServer(tmp_path / "site") as other:
        small.redirects[FIRST] = f"{other.url}small.f0.html"
        result = crawl_small(small)
        assert failure(result).startswith(f"leads to another site, {other.url}")
        assert not other.asked
    assert names(result) == REST


def test_follows_a_page_that_moved_on_the_site(small: SiteServer) -> None:
    Path("site/small.f0.html").rename("site/moved.html")
    small.redirects[FIRST] = f"{small.url}moved.html"
    assert names(crawl_small(small)) == ALL


def test_redirects_that_never_end_are_told(small: SiteServer) -> None:
    small.redirects[FIRST] = FIRST
    small.redirects |= {
        f"/small.f1.html{n * 'x'}": f"/small.f1.html{(n + 1) * 'x'}" for n in range(9)
    }
    result = crawl_small(small)
    assert failure(result) == f"redirected in a loop, led to {small.url}small.f0.html"
    assert failure(result, "/small.f1.html").startswith("redirected too often, led to")
    assert sum(path == FIRST for path in small.asked) <= 6


STUB = '<html><head><meta http-equiv="refresh" content="0; url={}"></head></html>'


def test_a_stub_is_followed_within_the_site_and_once(small: SiteServer) -> None:
    pages = Path("site")
    (pages / "small.f0.html").rename(pages / "moved.html")
    (pages / "small.f0.html").write_text(STUB.format("moved.html"))
    (pages / "small.f1.html").write_text(STUB.format("https://other.example/f1.html"))
    (pages / "small.f2.html").write_text(STUB.format("again.html"))
    (pages / "again.html").write_text(STUB.format("moved.html"))
    (pages / "small.f3.html").write_text(STUB.format("dead.html"))
    result = crawl_small(small)
    assert names(result) == ["f0"]
    assert result.info["failed_pages"] == {
        "small.f1.html": "a stub that leads to another site, https://other.example/f1.html",
        "small.f2.html": f"a stub that leads to a stub, {small.url}again.html",
        "small.f3.html": f"HTTP status 404, led to {small.url}dead.html",
    }


SIGNS = "\x1b(0\x07\x9b31m\u202e"


@pytest.mark.parametrize("place", ["host", "path", "type", "packing", "loop"])
@pytest.mark.parametrize("how", ["redirect", "stub"])
def test_a_reason_holds_no_sign_that_steers_a_terminal(
    small: SiteServer, place: str, how: str
) -> None:
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


def test_a_redirect_to_what_is_no_address_is_told(small: SiteServer) -> None:
    small.redirects[FIRST] = "http://]/"
    small.redirects["/small.f1.html"] = "http://x:y/"
    small.redirects["/small.f2.html"] = "ftp://x/"
    result = crawl_small(small)
    assert failure(result) == "led to what is no address"
    assert failure(result, "/small.f1.html") == "led to what is no address"
    assert failure(result, "/small.f2.html") == "HTTP status 302"


def test_a_site_within_this_machine_is_not_let_in_by_a_public_name(
    small: SiteServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve_to(monkeypatch, "docs.example", ["127.0.0.1"])
    port = small.url.rsplit(":", 1)[1]
    with pytest.raises(InputError, match=r"at a private address, 127\.0\.0\.1"):
        crawl_small(small, f"http://docs.example:{port}")
    assert small.connections == 0


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "10.0.0.1",
        "100.64.0.1",
        "0.0.0.0",
        "::1",
        "::ffff:127.0.0.1",
        "fe80::1",
    ],
)
def test_no_public_name_leads_to_an_address_of_a_private_network(
    small: SiteServer, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    resolve_to(monkeypatch, "docs.example", [address, "127.0.0.1"])
    port = small.url.rsplit(":", 1)[1]
    with pytest.raises(InputError, match="at a private address"):
        crawl_small(small, f"http://docs.example:{port}")
    assert small.connections == 0


def test_a_public_site_is_read(
    small: SiteServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "is_public_ip", lambda _: True)
    resolve_to(monkeypatch, "docs.example", ["127.0.0.1"])
    list_only("f0")
    url = f"http://docs.example:{small.url.rsplit(':', 1)[1]}"
    assert names(crawl_small(small, url, delay_s=0)) == ["f0"]
    assert all(agent.startswith("toolbank/") for agent in small.agents)


def test_a_connection_refused_is_told_as_such_after_an_address_was(
    small: SiteServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve_to(monkeypatch, "docs.example", ["127.0.0.1"])
    url = f"http://docs.example:{small.url.rsplit(':', 1)[1]}"
    list_only("f0", "f1", "f2")
    crawl_small(small, url, private_addresses=True, delay_s=0)
    forget(FIRST)
    forget("/small.f1.html")
    small.stop()
    answers = iter([False])  # as if the name led elsewhere the next time
    monkeypatch.setattr(door, "is_public_ip", lambda _: next(answers, True))
    result = crawl_small(small, url, concurrency=1, retries=0, delay_s=0)
    assert failure(result) == (
        "at a private address, 127.0.0.1; if that is meant, --private-addresses, or "
        "conduct.private_addresses in a recipe, lets it in"
    )
    assert failure(result, "/small.f1.html") == "connection refused"


def test_numbers_that_stand_for_an_address_are_no_way_around(
    small: SiteServer,
) -> None:
    port = small.url.rsplit(":", 1)[1]
    with pytest.raises(ToolbankError, match="no address that can be asked"):
        crawl_small(small, f"http://127.1:{port}")
    assert small.connections == 0


def test_a_site_of_a_private_network_is_read_where_the_user_says_so(
    small: SiteServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve_to(monkeypatch, "docs.example", ["127.0.0.1"])
    url = f"http://docs.example:{small.url.rsplit(':', 1)[1]}"
    list_only("f0")
    result = crawl_small(small, url, private_addresses=True, delay_s=0)
    assert names(result) == ["f0"]


def test_a_redirect_from_a_public_name_to_this_machine_is_refused(
    small: SiteServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    resolve_to(monkeypatch, "docs.example", ["127.0.0.1"])
    url = f"http://docs.example:{small.url.rsplit(':', 1)[1]}"
    list_only("f0", "f1", "f2")
    with SiteServer(tmp_path / "site") as inside:
        small.redirects[FIRST] = f"{inside.url}small.f0.html"
        small.redirects["/small.f1.html"] = f"{small.url}small.f1.html"
        result = crawl_small(small, url, private_addresses=True, delay_s=0)
        assert inside.connections == 0
    assert failure(result).startswith("leads to another site, http://127.0.0.1")
    assert failure(result, "/small.f1.html").startswith("leads to another site")


def test_a_proxy_of_the_environment_is_used(
    small: SiteServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", small.url)
    # What a proxy is asked for is the whole address.
    with pytest.raises(InputError, match="no inventory there"):
        crawl_small(small, "http://docs.example/")
    assert small.asked == [
        "http://docs.example/robots.txt",
        "http://docs.example/objects.inv",
    ]


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br"])
def test_a_bomb_is_refused(small: SiteServer, encoding: str) -> None:
    small.answers[FIRST] = faults.bomb(encoding, unpacked_mb=3)
    result = crawl_small(small, page_mb=1)
    assert failure(result) == "too large when unpacked"
    assert names(result) == REST


def test_a_page_without_end_is_refused(small: SiteServer) -> None:
    small.answers[FIRST] = faults.endless
    small.answers["/small.f1.html"] = answer(b"", content_length=str(2**40))
    result = crawl_small(small, page_mb=1)
    assert failure(result) == failure(result, "/small.f1.html") == "too large"
    assert names(result) == ["f2", "f3"]


@pytest.mark.parametrize("kind", ["silent", "dripping"])
def test_a_page_that_takes_too_long_is_given_up(small: SiteServer, kind: str) -> None:
    assert names(crawl_small(small)) == ALL
    # Only this page is asked for again, so that a slow machine makes no other one late.
    forget(FIRST)
    if kind == "silent":
        small.hanging.add(FIRST)
    else:
        small.answers[FIRST] = faults.dripping
    result = crawl_small(small, request_s=0.2, retries=0)
    assert failure(result) == "timed out"
    assert not result.complete
    assert names(result) == REST


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (faults.reset, "broken off"),
        (answer(b"<p>", content_length="99"), "broken off"),
        (answer(b"no gzip", content_encoding="gzip"), "broken off"),
        (answer(b"x", content_encoding="snappy"), "packed in an unknown way"),
        (faults.rubbish, "connection failed"),
        (answer(b"", "304 Not Modified"), "HTTP status 304"),
        (
            answer(b"%PDF", content_type="application/pdf"),
            "not HTML, but 'application/pdf'",
        ),
    ],
)
def test_a_broken_answer_has_its_reason_and_may_come_right(
    small: SiteServer, fault: faults.Answer, reason: str
) -> None:
    small.answers[FIRST] = fault
    result = crawl_small(small, retries=0)
    assert failure(result) == reason
    assert result.complete is (reason not in ("broken off", "connection failed"))
    assert names(result) == REST
    del small.answers[FIRST]
    assert names(crawl_small(small)) == ALL


def test_a_page_that_was_broken_off_once_is_read(small: SiteServer) -> None:
    small.answers[FIRST] = faults.in_turn(faults.reset, answer(GOOD))
    assert names(crawl_small(small)) == ALL


@pytest.mark.parametrize("limit", ["requests", "minutes"])
def test_a_crawl_that_reaches_its_limit_says_so_and_goes_on_the_next_time(
    small: SiteServer, hours: Hours, limit: str
) -> None:
    def take_an_hour(handler: SimpleHTTPRequestHandler) -> None:
        hours.passed += 3600
        answer(GOOD)(handler)

    small.answers[FIRST] = take_an_hour
    conduct = {"requests": 3} if limit == "requests" else {"crawl_min": 59}
    result = crawl_small(small, concurrency=1, **conduct)
    assert small.asked == ["/robots.txt", "/objects.inv", FIRST]
    assert not result.complete
    why = f"limit of {conduct.popitem()[1]} {limit}"
    assert any(why in line for line in result.problems)
    assert set(result.info["failed_pages"].values()) == {f"not asked for: {why}"}
    small.asked.clear()
    assert crawl_small(small).complete
    assert sorted(small.asked) == [f"/small.{name}.html" for name in REST]


def test_a_crawl_that_has_ended_makes_no_further_requests_up(
    small: SiteServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_only("f0", *(f"g{n}" for n in range(500)))
    seen: list[Request] = []
    look_up = ServeKept.process_request

    def count(self: ServeKept, request: Request) -> Response | None:
        seen.append(request)
        return look_up(self, request)

    monkeypatch.setattr(ServeKept, "process_request", count)
    result = crawl_small(small, concurrency=1, requests=3)
    reasons = Counter(result.record["failed_pages"].values())
    assert reasons == {"not asked for: limit of 3 requests": 500}
    assert result.info["skipped"] == {
        "page failed: not asked for: limit of 3 requests": 500
    }
    assert names(result) == ["f0"]
    assert len(seen) < 20


def test_a_crawl_that_has_ended_still_reads_what_is_kept(small: SiteServer) -> None:
    assert names(crawl_small(small)) == ALL
    forget("/small.f2.html")
    result = crawl_small(small, concurrency=1, requests=2, max_age_h=0)
    assert names(result) == ["f0", "f1", "f3"]
    assert (result.from_cache, result.stale) == (3, 3)
    assert failure(result, "/small.f2.html") == "not asked for: limit of 2 requests"


def test_an_inventory_is_looked_for_in_few_folders(small: SiteServer) -> None:
    Path("site/objects.inv").unlink()
    deep = "/" + 300 * "a/"
    small.redirects["/"] = deep
    small.answers[deep] = answer(b"<p>Welcome")
    with pytest.raises(InputError, match="no inventory there"):
        crawl_site(SphinxSource(base_url=small.url), Path("cache"))
    asked = [path for path in small.asked if path.endswith("objects.inv")]
    assert len(asked) == 7, "the address that was given, and six folders"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00\xff<<<>>&#xffffff;",
        b"<html><body><h1>Sorry, an error occurred</h1>",
        b"<dl class='py'><dt class='sig sig-object' id='small.other'>x</dt></dl>",
    ],
)
def test_a_page_that_lacks_its_objects_is_told_with_them(
    small: SiteServer, body: bytes
) -> None:
    small.answers[FIRST] = answer(body)
    result = crawl_small(small)
    assert names(result) == REST
    assert result.info["skipped"] == {"not on its page": 1}


def test_broken_html_is_read_as_a_browser_would(small: SiteServer) -> None:
    broken = described("small.f0", "<p>Do <b>it.").replace("</dd></dl>", "")
    small.answers[FIRST] = answer(broken.encode())
    assert crawl_small(small).tools[0].summary == "Do it."


def test_an_inventory_that_lies_costs_no_more_than_its_lies(
    small: SiteServer, tmp_path: Path
) -> None:
    truth = [("py:function", f"small.f{n}", f"small.f{n}.html#$") for n in range(4)]
    lies = [
        ("py:function", "small.gone", "gone.html#$"),
        ("py:function", "small.up", "../up.html#$"),
        ("py:function", "small.root", "/etc/passwd#$"),
        ("py:function", "small.away", "https://other.example/x.html#$"),
        ("py:function", "small.anchor", "small.f0.html#nowhere"),
        *(("py:function", f"small.m{n}", f"small.f1.html#m{n}") for n in range(3_000)),
    ]
    write_inventory(tmp_path / "site", truth + lies)
    result = crawl_small(small)
    assert names(result) == ALL
    assert sum(result.info["skipped"].values()) == len(lies)
    assert result.info["skipped"]["page failed: HTTP status 404"] == 1
    assert result.info["skipped"]["page outside the site"] == 3
    assert result.info["skipped"]["not on its page"] == 3_001
    assert len(small.asked) == 2 + len(ALL) + 1, "each page once"


@pytest.mark.parametrize("name", ["docs.example", "docs.internal", "docs"])
def test_a_certificate_that_no_one_vouches_for_is_told(
    small: SiteServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    small.use_own_certificate(tmp_path)
    resolve_to(monkeypatch, name, ["127.0.0.1"])
    port = small.url.rsplit(":", 1)[1]
    with pytest.raises(InputError, match="certificate can't be trusted"):
        crawl_small(small, f"https://{name}:{port}", private_addresses=True)
    assert not small.asked


def test_a_site_on_this_machine_needs_no_certificate(
    small: SiteServer, tmp_path: Path
) -> None:
    small.use_own_certificate(tmp_path)
    assert names(crawl_small(small, small.url.replace("http:", "https:"))) == ALL


def list_only(*names: str) -> None:
    """Let the site have these functions alone: a public one is asked slowly."""
    objects = [
        ("py:function", f"small.{name}", f"small.{name}.html#$") for name in names
    ]
    write_inventory(Path("site"), objects)


def forget(path: str) -> None:
    """Throw away what is kept of a path."""
    for file in Path("cache").rglob("[0-9a-f]" * 64):
        head = json.loads(file.read_bytes().partition(b"\n")[0])
        if head["url"].endswith(path):
            file.unlink()


def resolve_to(
    monkeypatch: pytest.MonkeyPatch, name: str, addresses: list[str]
) -> None:
    """Let the system's resolver give these addresses for a name."""
    real = socket.getaddrinfo

    def getaddrinfo(
        host: object, port: object, *args: object, **kwargs: object
    ) -> object:
        if host != name:
            return real(host, port, *args, **kwargs)  # type: ignore[arg-type]
        return [
            (
                socket.AF_INET6 if ":" in address else socket.AF_INET,
                socket.SOCK_STREAM,
                socket.IPPROTO_TCP,
                "",
                (address, port, 0, 0) if ":" in address else (address, port),
            )
            for address in addresses
        ]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
