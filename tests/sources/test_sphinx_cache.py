import os
import time
from pathlib import Path

import pytest

from tests.sources.faults import answer, cut_off
from tests.sources.small_site import ALL, FIRST, crawl_small, failure, names
from tests.sources.sphinx_server import PAGE, described
from toolbank.sources.sphinx.crawl import problems, record
from toolbank.sources.web.answer import WebResponse
from toolbank.sources.web.client import PageCache
from toolbank.system.errors import InputError, ToolbankError

PAGES = ["/robots.txt", "/objects.inv", *(f"/small.{name}.html" for name in ALL)]
DAY = 24 * 3600


def kept():
    return [path for path in Path("cache").rglob("*") if path.is_file()]


def age(days):
    for path in kept():
        checked = path.stat().st_mtime - days * DAY
        os.utime(path, (checked, checked))


def test_a_second_crawl_asks_for_nothing_and_gives_the_same(small):
    (Path("site/small.f3.html")).unlink()
    small.redirects["/small.f2.html"] = "/small.f1.html"
    small.answers["/small.f1.html"] = answer(
        b'<meta http-equiv="refresh" content="0; url=small.f0.html">'
    )
    first = crawl_small(small)
    assert failure(first, "/small.f3.html") == "HTTP status 404"
    small.asked.clear()
    second = crawl_small(small)
    assert small.asked == [], "robots.txt, what moved, and what is gone included"
    assert (second.tools, record(second)) == (first.tools, record(first))
    assert second.from_cache == second.pages.keys() == first.pages.keys()


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_that_a_site_has_no_robots_txt_to_show_is_kept(small, status):
    small.statuses["/robots.txt"] = [status]
    assert names(crawl_small(small)) == ALL
    small.asked.clear()
    assert names(crawl_small(small)) == ALL
    assert small.asked == []


def test_what_has_not_changed_is_renewed_and_not_sent_again(small):
    first = crawl_small(small)
    age(8)
    small.conditions.clear()
    second = crawl_small(small)
    asked = [path for path, tag, date in small.conditions if tag or date]
    assert sorted(asked) == sorted(PAGES[1:]), "all that has a date"
    assert len(second.from_cache) == 4
    assert record(second) == record(first)
    small.asked.clear()
    crawl_small(small)
    assert small.asked == [], "the check counts for another week"


def test_what_has_changed_is_read_anew(small):
    crawl_small(small)
    age(8)
    page = Path("site") / FIRST.lstrip("/")
    page.write_text(page.read_text().replace("Do small.f0", "Redo small.f0"))
    later = time.time() + 5
    os.utime(page, (later, later))
    result = crawl_small(small)
    assert result.tools[0].summary == "Redo small.f0."
    assert len(result.from_cache) == 3


def test_a_page_is_asked_for_by_its_tag(small):
    page = PAGE.format(described("small.f0", "<p>Tagged.</p>")).encode()
    small.answers[FIRST] = answer(page, etag='"one"')
    crawl_small(small)
    small.answers[FIRST] = answer(b"", "304 Not Modified", etag='"one"')
    result = crawl_small(small, max_age_h=0)
    assert (FIRST, '"one"', None) in small.conditions
    assert result.tools[0].summary == "Tagged."
    assert len(result.from_cache) == 4


@pytest.mark.parametrize("trouble", ["status", "cut off", "away"])
def test_a_page_that_cant_be_checked_serves_as_it_was_kept(small, trouble):
    first = crawl_small(small)
    age(8)
    if trouble == "status":
        small.statuses = {path: [503] for path in PAGES}
    elif trouble == "cut off":
        small.answers |= dict.fromkeys(PAGES, cut_off)
    else:
        small.stop()
    result = crawl_small(small)
    assert result.tools == first.tools
    assert record(result) == record(first)
    assert len(result.from_cache) == len(result.stale) == 4
    assert any("4 pages could not be checked" in line for line in problems(result))


def test_a_page_that_is_gone_meanwhile_is_gone(small):
    crawl_small(small)
    age(8)
    (Path("site") / FIRST.lstrip("/")).unlink()
    assert failure(crawl_small(small)) == "HTTP status 404"


def test_a_site_without_its_inventory_is_asked_again(small):
    inventory = Path("site/objects.inv")
    inventory.rename("site/hidden")
    with pytest.raises(InputError, match=rf"{small.url}objects.inv: .* status 404"):
        crawl_small(small)
    Path("site/hidden").rename(inventory)
    assert names(crawl_small(small)) == ALL


def test_a_damaged_page_is_asked_for_again(small):
    first = crawl_small(small)
    for number, path in enumerate(sorted(kept())):
        data = path.read_bytes()
        cut, head = len(data) - 5, data.index(b"\n")
        path.write_bytes(
            [
                data[:cut],
                data[:cut] + bytes(5),
                b"",
                data[:head],
                b"[]" + data[head:],
                data.replace(b"200", b"x", 1).replace(b"404", b"x", 1),
            ][number % 6]
        )
    small.asked.clear()
    assert crawl_small(small).tools == first.tools
    assert sorted(small.asked) == sorted(PAGES)


def test_a_page_serves_for_a_week_or_another_age_and_none_of_the_future(small):
    crawl_small(small)
    age(6.9)
    small.asked.clear()
    crawl_small(small)
    assert small.asked == ["/robots.txt"], "what the site allows is a day old at most"
    crawl_small(small, max_age_h=24)
    assert sorted(small.asked) == sorted(PAGES)
    crawl_small(small)
    age(-1)
    small.asked.clear()
    crawl_small(small)
    assert sorted(small.asked) == sorted(PAGES)


def test_a_cache_that_cant_be_written_ends_the_crawl_with_its_path(small):
    Path("cache").write_text("a file where the folder should be")
    with pytest.raises(ToolbankError, match=r"cache.*cannot be written"):
        crawl_small(small)


def test_a_kept_page_that_is_larger_than_allowed_counts_as_missing(tmp_path):
    url = "http://small.example/"
    page = WebResponse(url, 200, {"etag": '"one"'}, b"x" * 2_000)
    PageCache(tmp_path, max_bytes=2_000).write(page)
    found = PageCache(tmp_path, max_bytes=2_000).read(url)
    assert found is not None
    assert found[0].body == page.body
    assert found[0].headers["etag"] == '"one"'
    assert PageCache(tmp_path, max_bytes=1_999).read(url) is None
