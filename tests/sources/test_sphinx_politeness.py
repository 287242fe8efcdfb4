import re
from email.utils import formatdate
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.sources import faults
from tests.sources.faults import answer
from tests.sources.small_site import (
    ALL,
    FIRST,
    GOOD,
    NOON,
    REST,
    crawl_small,
    failure,
    forget,
    list_only,
    names,
)
from toolbank.sources.sphinx.crawl import count, crawl_site, problems, record
from toolbank.sources.sphinx.settings import SphinxSource
from toolbank.sources.web.policy import CrawlPolicy, CrawlSettings
from toolbank.system.errors import InputError, ToolbankError


def test_tells_the_site_who_asks(small):
    crawl_small(small, contact="https://me.example/bot")
    [agent] = small.agents
    assert re.fullmatch(r"toolbank/\S+ \(\+https://me.example/bot\)", agent)


@pytest.mark.parametrize(
    "contact",
    ["me@x.example\r\nX-Evil: 1", "me@x.example\0", "unreachable", "(me@x.example)"],
)
def test_a_contact_that_would_break_the_header_is_refused(contact):
    with pytest.raises(ValidationError, match="mail address"):
        CrawlPolicy(contact=contact)


def test_a_public_site_is_asked_gently_and_a_private_one_at_full_speed(small):
    public = CrawlSettings("https://numpy.org/doc/2.0/", CrawlPolicy())
    assert (public.delay_s, public.concurrency) == (0.25, 2)
    assert public.adapts and public.guards
    private = CrawlSettings(small.url, CrawlPolicy())
    assert (private.delay_s, private.adapts) == (0, False)
    assert CrawlSettings(small.url, CrawlPolicy(delay_s=1)).delay_s == 1


@pytest.mark.parametrize(
    ("rules", "more"),
    [
        (f"User-agent: toolbank\nDisallow: {FIRST}\n\nUser-agent: *\n", ""),
        # One without end, of which the beginning counts.
        (f"User-agent: *\nDisallow: {FIRST}\n", "Disallow: /else/where\n" * 200_000),
    ],
    ids=["own rules", "endless"],
)
def test_obeys_robots_txt(small, rules, more):
    robots = f"{rules}{more}".encode()
    small.answers["/robots.txt"] = answer(robots, content_type="text/plain")
    result = crawl_small(small, page_mb=1)
    assert failure(result) == "forbidden by robots.txt"
    assert FIRST not in small.asked
    assert names(result) == REST
    small.asked.clear()
    assert names(crawl_small(small, page_mb=1)) == REST
    assert small.asked == []


def test_keeps_the_delay_that_robots_txt_asks_for(small, hours):
    Path("site/robots.txt").write_text("User-agent: *\nCrawl-delay: 20\n")
    assert names(crawl_small(small, concurrency=1)) == ALL
    # The site's speed is not what is told here: a wait is what is left of the 20 s.
    assert hours.waits == [(20.0, asked) for asked in range(2, len(small.asked))]


@pytest.mark.parametrize(
    ("robots", "kind", "why"),
    [
        (answer(b"User-agent: *\nCrawl-delay: 999"), ToolbankError, "asks for 999 s"),
        (answer(b"", "503 No"), ToolbankError, "HTTP status 503"),
        (faults.bomb("gzip", unpacked_mb=3), InputError, "too large when unpacked"),
        (
            answer(b"", "302 Moved", location="http://127.0.0.1:9/robots.txt"),
            *(InputError, "leads to another site, http://127.0.0.1:9/robots.txt"),
        ),
    ],
)
def test_a_robots_txt_that_fails_or_asks_too_much_forbids(small, robots, kind, why):
    small.answers["/robots.txt"] = robots
    with pytest.raises(ToolbankError, match=f"robots.txt .*{why}") as caught:
        crawl_small(small, retries=0, page_mb=1)
    assert type(caught.value) is kind
    assert small.asked == ["/robots.txt"]


def test_a_robots_txt_that_is_cut_off_forbids_nothing_by_its_last_line(small):
    start = "User-agent: *\n"
    padding = "#" * (500 * 1024 - len(f"{start}\nDisallow: /")) + "\n"
    text = f"{start}{padding}Disallow: /else/where\n"
    small.answers["/robots.txt"] = answer(text.encode())
    assert names(crawl_small(small)) == ALL


def test_a_page_that_fails_twice_is_tried_again(small):
    small.statuses[FIRST] = [503, 503, 200]
    assert names(crawl_small(small)) == ALL


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("after", ["100", formatdate(NOON + 100, usegmt=True)])
def test_a_site_that_asks_for_a_pause_is_left_alone_wholly(small, hours, status, after):
    pause = answer(b"", f"{status} Wait", retry_after=after)
    small.answers[FIRST] = faults.in_turn(pause, answer(GOOD))
    assert names(crawl_small(small, concurrency=1)) == ALL
    before = small.asked.index(FIRST) + 1
    paused = [seconds for seconds, asked in hours.waits if asked == before]
    assert sum(paused) == 100, "no request at all during the pause"
    assert len(small.asked) == 2 + len(ALL) + 1


def test_a_site_that_asks_for_too_long_a_pause_is_left_for_another_day(small):
    small.answers["/small.f2.html"] = answer(b"", "503 No", retry_after="3600")
    result = crawl_small(small, concurrency=1)
    assert result.may_pass
    why = "the site asked for a pause of 3600 s"
    assert any(why in line for line in problems(result))
    small.answers.clear()
    assert names(crawl_small(small)) == ALL


def test_a_site_that_is_gone_is_not_asked_for_every_page(small):
    list_only("f0", *(f"g{n}" for n in range(200)))
    paths = (FIRST, *(f"/small.g{n}.html" for n in range(200)))
    small.answers |= dict.fromkeys(paths, faults.cut_off)
    with pytest.raises(ToolbankError, match="the site did not answer any more"):
        crawl_small(small, retries=0)
    assert len(small.asked) < 80, "and one more try each where a connection was reused"


def test_a_site_with_many_broken_pages_is_read_to_its_end(small):
    list_only("f0", *(f"g{n}" for n in range(40)))
    for n in range(40):
        small.answers[f"/small.g{n}.html"] = answer(b"<p>", content_length="99")
    assert names(crawl_small(small, retries=0)) == ["f0"]


@pytest.mark.parametrize("limit", ["requests", "minutes"])
def test_a_crawl_at_its_limit_says_so_and_goes_on_later(small, hours, limit):
    def take_an_hour(handler):
        hours.passed += 3600
        answer(GOOD)(handler)

    small.answers[FIRST] = take_an_hour
    bound = {"requests": 3} if limit == "requests" else {"crawl_min": 59}
    result = crawl_small(small, concurrency=1, **bound)
    assert small.asked == ["/robots.txt", "/objects.inv", FIRST]
    assert result.may_pass
    why = f"limit of {bound.popitem()[1]} {limit}"
    assert any(why in line for line in problems(result))
    assert set(count(result)["failed_pages"].values()) == {f"not asked for: {why}"}
    small.asked.clear()
    assert not crawl_small(small).may_pass
    assert sorted(small.asked) == [f"/small.{name}.html" for name in REST]


def test_a_crawl_that_has_ended_fails_for_every_further_page(small):
    list_only("f0", *(f"g{n}" for n in range(500)))
    result = crawl_small(small, concurrency=1, requests=3)
    lost = "page failed: not asked for: limit of 3 requests"
    assert count(result)["left_out"] == {lost: 500}
    assert len(record(result)["failed_pages"]) == 500
    assert names(result) == ["f0"]


def test_a_crawl_that_has_ended_still_reads_what_is_kept(small):
    assert names(crawl_small(small)) == ALL
    forget("/small.f2.html")
    result = crawl_small(small, concurrency=1, requests=2, max_age_h=0)
    assert names(result) == ["f0", "f1", "f3"]
    assert len(result.from_cache) == len(result.stale) == 3
    assert failure(result, "/small.f2.html") == "not asked for: limit of 2 requests"


def test_an_inventory_is_looked_for_in_few_folders(small):
    Path("site/objects.inv").unlink()
    deep = "/" + 300 * "a/"
    small.redirects["/"] = deep
    small.answers[deep] = answer(b"<p>Welcome")
    with pytest.raises(InputError, match="no inventory there"):
        crawl_site(SphinxSource(base_url=small.url), Path("cache"))
    asked = [path for path in small.asked if path.endswith("objects.inv")]
    assert len(asked) == 7, "the address that was given, and six folders"
