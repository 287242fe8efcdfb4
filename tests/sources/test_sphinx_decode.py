"""Pages in whatever encoding they come, and headers that say anything."""

import encodings.aliases

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.sources.faults import answer
from tests.sources.small_site import ALL, FIRST, GOOD, crawl_small, names
from toolbank.sources.web.answer import WebResponse, decode_html
from toolbank.sources.web.download import Throttle
from toolbank.sources.web.policy import CrawlPolicy, CrawlSettings

# What Python knows by name, with codecs that are none of text.
NAMES = sorted(
    {*encodings.aliases.aliases, "idna", "punycode", "undefined", "oem", "é"}
)


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
