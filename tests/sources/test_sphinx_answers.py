import encodings.aliases

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.sources import faults
from tests.sources.faults import answer
from tests.sources.small_site import (
    ALL,
    FIRST,
    GOOD,
    REST,
    crawl_small,
    failure,
    forget,
    names,
)
from tests.sources.sphinx_server import described, write_inventory
from toolbank.sources.sphinx.crawl import count
from toolbank.sources.web.answer import WebResponse, decode_html
from toolbank.sources.web.download import Throttle
from toolbank.sources.web.policy import CrawlPolicy, CrawlSettings


@pytest.mark.parametrize("kind", ["silent", "dripping"])
def test_a_page_that_takes_too_long_is_given_up(small, kind):
    assert names(crawl_small(small)) == ALL
    # Only this page is asked for again, so that a slow machine makes no other one late.
    forget(FIRST)
    if kind == "silent":
        small.hanging.add(FIRST)
    else:
        small.answers[FIRST] = faults.dripping
    result = crawl_small(small, request_s=0.2, retries=0)
    assert failure(result) == "timed out"
    assert result.may_pass
    assert names(result) == REST


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (faults.reset, "broken off"),
        (answer(b"<p>", content_length="99"), "broken off"),
        (answer(b"no gzip", content_encoding="gzip"), "broken off"),
        (faults.rubbish, "connection failed"),
        (answer(b"x", content_encoding="snappy"), "packed in an unknown way"),
        (answer(b"", "304 Not Modified"), "HTTP status 304"),
        (answer(b"%PDF", content_type="image/png"), "not HTML, but 'image/png'"),
        (faults.bomb("gzip", unpacked_mb=3), "too large when unpacked"),
        (faults.bomb("deflate", unpacked_mb=3), "too large when unpacked"),
        (faults.endless, "too large"),
        (answer(b"", content_length=str(2**40)), "too large"),
    ],
)
def test_a_broken_answer_has_its_reason_and_may_come_right(small, fault, reason):
    small.answers[FIRST] = fault
    result = crawl_small(small, retries=0, page_mb=1)
    assert failure(result) == reason
    assert bool(result.may_pass) is (reason in ("broken off", "connection failed"))
    assert names(result) == REST
    del small.answers[FIRST]
    assert names(crawl_small(small)) == ALL


def test_a_page_that_was_broken_off_once_is_read(small):
    small.answers[FIRST] = faults.in_turn(faults.reset, answer(GOOD))
    assert names(crawl_small(small)) == ALL


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00\xff<<<>>&#xffffff;",
        b"<html><body><h1>Sorry, an error occurred</h1>",
        b"<dl class='py'><dt class='sig sig-object' id='small.other'>x</dt></dl>",
    ],
)
def test_a_page_that_lacks_its_objects_is_told_with_them(small, body):
    small.answers[FIRST] = answer(body)
    result = crawl_small(small)
    assert names(result) == REST
    assert count(result)["left_out"] == {"not on its page": 1}


def test_broken_html_is_read_as_a_browser_would(small):
    broken = described("small.f0", "<p>Do <b>it.").replace("</dd></dl>", "")
    small.answers[FIRST] = answer(broken.encode())
    assert crawl_small(small).tools[0].summary == "Do it."


def test_an_inventory_that_lies_costs_no_more_than_its_lies(small, tmp_path):
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
    assert sum(count(result)["left_out"].values()) == len(lies)
    assert count(result)["left_out"]["page failed: HTTP status 404"] == 1
    assert count(result)["left_out"]["page outside the site"] == 3
    assert count(result)["left_out"]["not on its page"] == 3_001
    assert len(small.asked) == 2 + len(ALL) + 1, "each page once"


# What Python knows by name, with codecs that are none of text.
NAMES = sorted({*encodings.aliases.aliases, "idna", "punycode", "undefined", "é"})


@pytest.mark.parametrize(
    ("sent_as", "start", "written_in"),
    [
        ("text/html; charset=utf-8", b"", "utf-8"),
        ("text/html; charset=latin-1", b"", "utf-8"),
        ("text/html; charset=latin-1", b"", "latin-1"),
        ("text/html; charset=nonsense", b"", "utf-8"),
        ("text/html; charset=hex", b"", "utf-8"),
        ("text/html; charset=idna", b"", "utf-8"),
        ("text/html; charset=undefined", b"", "utf-8"),
        ("text/html; charset=", b"", "utf-8"),
        ("text/html", b'<meta charset="windows-1252">', "cp1252"),
        ("text/html", b'<meta charset="iso-8859-1">', "utf-8"),
        ("text/html", b'<meta charset="shift_jis">', "shift_jis"),
        ("text/html; charset=latin-1", b"\xef\xbb\xbf", "utf-8"),
        ("text/html; charset=utf-8", b"\xff\xfe", "utf-16-le"),
        ("text/html; charset=utf-16-le", b"", "utf-16-le"),
    ],
)
def test_a_page_in_any_encoding_is_read(small, sent_as, start, written_in):
    words = "あ" if written_in == "shift_jis" else "Café"
    page = GOOD.decode().replace("¶", "").replace("Do it.", words)
    small.answers[FIRST] = answer(start + page.encode(written_in), content_type=sent_as)
    result = crawl_small(small)
    assert names(result) == ALL
    assert result.tools[0].summary == words


def test_a_page_that_is_not_in_its_encoding_loses_only_what_fits_none(small):
    page = GOOD.replace(b"Do it.", b"Caf\xe9.")
    small.answers[FIRST] = answer(page, content_type="text/html; charset=utf-8")
    assert crawl_small(small).tools[0].summary == "Caf\ufffd."


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=80), st.sampled_from(NAMES), st.booleans())
def test_any_bytes_said_to_be_in_any_encoding_are_read(body, name, in_page):
    if in_page:
        text = decode_html(f'<meta charset="{name}">'.encode() + body, "text/html")
    else:
        text = decode_html(body, f"text/html; charset={name}")
    text.encode()


@settings(max_examples=100, deadline=None)
@example("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", 503)
@example("Mon, 01 Jan 2030 99999999999999999999:00:00 GMT", 503)
@example("Mon, 01 Jan 0001 00:00:00 +2359", 503)
@example("Fri, 31 Dec 9999 23:59:59 -2359", 503)
@given(
    st.one_of(
        st.text(max_size=40),
        st.integers().map(str),
        st.from_regex(
            r"[A-Z][a-z]{2}, \d{1,25} [A-Z][a-z]{2} \d{1,25} \d{1,3}:\d{1,3}:\d{1,3} "
            r"(GMT|[+-]\d{4,8})",
            fullmatch=True,
        ),
    ),
    st.sampled_from([200, 429, 503]),
)
def test_any_words_in_retry_after_are_borne(words, status):
    url = "http://small.example/"
    throttle = Throttle(CrawlSettings(url, CrawlPolicy()))
    throttle.note(WebResponse(url, status, {"retry-after": words}), latency_s=0.1)
    assert throttle.ended == "" or status != 200
