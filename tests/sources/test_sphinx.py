"""Crawling a Sphinx site: names, what a tool carries, and what goes wrong."""

import pytest

from tests.sources.references import tool
from tests.sources.sphinx_server import (
    PAGE,
    SiteServer,
    described,
    listing,
    signed,
    write_inventory,
)
from toolbank.sources.collect import collect_tools
from toolbank.sources.sphinx.crawl import count, crawl_site
from toolbank.sources.sphinx.settings import SphinxSource
from toolbank.system.errors import InputError, ToolbankError

YAML = """
base_url: https://sample.example/doc/
objects:
  roles: [function, class, data, module]
  parents: [sample, sample.sub]
  exclude: [sample.private]
tables: [reference.html, more/*.html]
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A site of two functions, one of them under two names, an object, a constant, a module."""
    folder = tmp_path / "site"
    for part in ("api", "more"):
        (folder / part).mkdir(parents=True)
    same = '<p>Add, under another name.</p><p class="rubric">Examples</p><pre>plus(1)</pre>'
    grid = '<em class="property"> = &lt;sample.Grid object&gt;</em>'
    box = "<p>Holds things.</p>" + described("sample.Box.open", "<p>Open it.</p>")
    sub = (
        '<tr><td><a class="reference" href="../api/sub.html#module-sample.sub">'
        "<code>sub</code></a></td></tr></tbody>"
    )
    more = listing("sample.grid", "sample.pi", "sample.Box")
    pages = {
        "reference.html": listing(
            *("sample.add", "sample.sub.plus", "sample.plus", "sample.dead")
        ),
        "more/rest.html": more.replace('href="', 'href="../').replace("</tbody>", sub),
        "api/sub.html": '<section id="module-sample.sub"><h1>sub</h1><p>Tools for more.</p>'
        "<section><h2>Inner</h2><p>Not read.</p></section></section>",
    }
    for name, *said in (
        ("sample.add", "<p>Add.</p>", signed("a", "*", "mode='fast'")),
        ("sample.plus", same, signed("a")),
        ("sample.sub.plus", same, signed("a")),
        ("sample.grid", "<p>Indexed.</p>", grid, "data"),
        ("sample.pi", "<p>3.14</p>", '<em class="property"> = 3.14</em>', "data"),
        ("sample.Box", box, signed("size=3"), "class"),
    ):
        pages[f"api/{name}.html"] = described(name, *said)
    for name, body in pages.items():
        (folder / name).write_text(PAGE.format(body), encoding="utf-8")
    names = {
        "function": "add plus sub.plus dead unlisted private.secret",
        "method": "Box.open",
        "class": "Box",
        "data": "grid pi",
    }
    objects = [
        (f"py:{role}", f"sample.{name}", f"api/sample.{name}.html#$")
        for role, listed in names.items()
        for name in listed.split()
    ]
    objects += [
        ("py:module", "sample.sub", "api/sub.html#module-$"),
        ("std:doc", "reference", "reference.html"),
        ("std:doc", "more/rest", "more/rest.html"),
        ("std:doc", "more/deep/rest", "more/deep/rest.html"),
        ("py:function", "sample.Inner.add", "api/sample.add.html#sample.add"),
        ("py:function", "elsewhere.thing", "api/elsewhere.thing.html#$"),
    ]
    write_inventory(folder, objects)
    (tmp_path / "crawlers").mkdir()
    (tmp_path / "crawlers" / "sample.yaml").write_text(YAML)
    monkeypatch.chdir(tmp_path)
    with SiteServer(folder) as server:
        yield server


def crawl(server, tmp_path):
    return crawl_site(
        SphinxSource(site="sample", base_url=server.url), tmp_path / "cache"
    )


def test_an_object_is_a_tool_another_name_or_skipped_with_its_reason(site, tmp_path):
    result = crawl(site, tmp_path)
    box = tool(result, "sample.Box")
    assert box.description == "", "the words of its methods are not its own"
    assert box.url == "https://sample.example/doc/api/sample.Box.html#sample.Box"
    assert tool(result, "sample.plus").aliases == ("sample.sub.plus",)
    assert tool(result, "sample.add").signature == "sample.add(a, *, mode='fast')"
    assert tool(result, "sample.add").source == "sphinx:Sample 1.2"
    assert [(t.name, t.kind) for t in result.tools] == [
        ("sample.Box", "class"),
        ("sample.add", "function"),
        ("sample.grid", "object"),
        ("sample.plus", "function"),
        ("sample.sub", "module"),
    ]
    info = count(result)
    assert info["left_out"] == {
        "a constant": 1,
        "in no table": 1,
        "not of the py domain": 3,
        "page failed: HTTP status 404": 1,
        "parent not listed": 2,
        "excluded": 1,
        "role method": 1,
    }
    assert info["objects"] == 16
    assert info["tools"] + info["aliases"] + sum(info["left_out"].values()) == 16
    assert info["failed_pages"] == {"api/sample.dead.html": "HTTP status 404"}


def test_a_page_that_would_take_minutes_is_named(site, tmp_path):
    page = PAGE.format(described("sample.add", "<div>" * 5_000))
    (tmp_path / "site/api/sample.add.html").write_text(page, encoding="utf-8")
    result = crawl(site, tmp_path)
    failed = count(result)["failed_pages"]
    assert failed["api/sample.add.html"] == "nested too deeply"
    assert len(result.tools) == 4


def test_what_only_a_table_lists_that_failed_is_lost(site, tmp_path):
    site.statuses["/more/rest.html"] = [500]
    result = crawl(site, tmp_path)
    assert {t.name for t in result.tools} == {"sample.add", "sample.plus"}
    assert count(result)["left_out"]["in no table that could be read"] == 5


def test_what_a_crawl_lost_is_told_and_got_by_the_next_one(site, tmp_path):
    source = SphinxSource(site="sample", base_url=site.url)
    site.statuses["/api/sample.add.html"] = [503]
    collected = collect_tools([source], tmp_path / "cache")
    assert not collected.complete
    assert [line.partition("(")[0] for line in collected.problems] == [
        *("sphinx:sample: 1 page failed ", "sphinx:sample: 1 page failed "),
        "sphinx:sample: 2 objects not found ",
    ]
    for name, status in (("dead", 404), ("add", 503)):
        told = f"(HTTP status {status}): {site.url}api/sample.{name}.html"
        assert told in " ".join(collected.problems)
    del site.statuses["/api/sample.add.html"]
    again = collect_tools([source], tmp_path / "cache")
    assert again.complete, "a page that is not there will not be there the next time"
    assert len(again.tools) == len(collected.tools) + 1
    assert [line for line in again.problems if "503" in line] == []


def test_a_false_inventory_is_told_and_not_kept(site, tmp_path):
    path = tmp_path / "site" / "objects.inv"
    good = path.read_bytes()
    path.write_bytes(b"<html>no</html>")
    with pytest.raises(InputError, match="not a Sphinx inventory"):
        crawl(site, tmp_path)
    path.write_bytes(good)
    assert crawl(site, tmp_path).tools


def test_a_site_that_is_down_is_told(site, tmp_path):
    site.stop()
    with pytest.raises(
        ToolbankError, match=f"{site.url}.*: no answer.*refused"
    ) as raised:
        crawl(site, tmp_path)
    assert raised.value.exit_code == 1


def test_an_inventory_that_lies_elsewhere_is_told(site, tmp_path):
    site.redirects["/objects.inv"] = "https://sample.example/objects.inv"
    with pytest.raises(InputError, match=r"leads to another site.*sample.example"):
        crawl(site, tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("objects:", "objekts:", r"yaml, line 3: unknown key 'objekts'; .*'objects'"),
        ("[sample, sample.sub]", "[nowhere]", "no object of its inventory became"),
        ("https://", "https://me:hunter2@", "base_url: .*password"),
        ("function", "funktion", r"line 3: objects: no role 'funktion'.*function,"),
        ("https://", "ftp://", "base_url: .*no site's address"),
        ("objects:", "objects: [", r"sample.yaml, line \d+: not valid YAML"),
        ("more/*", "less/*", None),
        ("reference.html, more/*.html", "none.html", "no page of this site fits"),
    ],
)
def test_a_wrong_yaml_is_told_with_file_and_key(site, tmp_path, old, new, message):
    (tmp_path / "crawlers" / "sample.yaml").write_text(YAML.replace(old, new))
    if message is None:
        assert crawl(site, tmp_path).tools
        return
    with pytest.raises(InputError, match=message) as caught:
        crawl(site, tmp_path)
    assert "hunter2" not in str(caught.value)
