import pytest

from tests.corpus_files import CORPUS, check_expected
from tests.sources.sphinx_server import (
    PAGE,
    SiteServer,
    copy_site,
    described,
    signed,
    write_inventory,
)
from toolbank.sources.collect import collect_tools
from toolbank.sources.sphinx.crawl import count, crawl_site
from toolbank.sources.sphinx.settings import SphinxSource
from toolbank.system.errors import InputError, ToolbankError

YAML = (CORPUS / "sites" / "sample.yaml").read_text("utf-8")


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A site of two functions, one of them under two names, an object, a constant, a module."""
    copy_site("sample", tmp_path / "site")
    (tmp_path / "crawlers").mkdir()
    (tmp_path / "crawlers" / "sample.yaml").write_text(YAML)
    monkeypatch.chdir(tmp_path)
    with SiteServer(tmp_path / "site") as server:
        yield server


def crawl(server, tmp_path):
    source = SphinxSource(site="sample", base_url=server.url)
    return crawl_site(source, tmp_path / "cache")


def test_objects_of_a_site_are_read_as_expected(site, tmp_path, update_corpus):
    result = crawl(site, tmp_path)
    tools = [tool.model_dump(exclude_defaults=True) for tool in result.tools]
    info = count(result)
    expected = CORPUS / "sites" / "sample.tools.json"
    found = {"tools": tools, "info": info}
    check_expected(expected, found, update=update_corpus)
    counted = info["aliases"] + sum(info["left_out"].values())
    assert info["objects"] == len(tools) + counted == 16


def test_the_bases_of_a_class_are_no_parameters(tmp_path):
    bases = {
        "Feed": ("title",),
        "Rss": ("Feed",),
        "Broken": ("Feed", "OSError"),
        "Bag": ("dict",),
        "Key": ("Feed", "type"),
        "Told": ("Feed",),
    }
    fields = '<dl class="field-list"><dt>Parameters</dt><dd><p><strong>Feed</strong> - One.</p></dd></dl>'
    page = PAGE.format(
        "".join(
            described(
                f"a.{name}",
                fields if name == "Told" else "<p>One.</p>",
                signed(*of),
                "class",
            )
            for name, of in bases.items()
        )
    )
    (tmp_path / "api.html").write_text(page, "utf-8")
    write_inventory(
        tmp_path, [("py:class", f"a.{name}", "api.html#$") for name in bases]
    )
    with SiteServer(tmp_path) as server:
        result = crawl_site(SphinxSource(base_url=server.url), tmp_path / "cache")
    found = {tool.name: [*tool.parameters["properties"]] for tool in result.tools}
    assert found == {
        "a.Feed": ["title"],
        "a.Rss": [],
        "a.Broken": [],
        "a.Bag": [],
        "a.Key": ["Feed", "type"],
        "a.Told": ["Feed"],
    }


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
    ) as told:
        crawl(site, tmp_path)
    assert told.value.exit_code == 1


def test_an_inventory_that_lies_elsewhere_is_told(site, tmp_path):
    site.redirects["/objects.inv"] = "https://sample.example/objects.inv"
    with pytest.raises(InputError, match=r"leads to another site.*sample.example"):
        crawl(site, tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("objects:", "objekts:", r"yaml, line 2: unknown key 'objekts'; .*'objects'"),
        ("[sample, sample.sub]", "[nowhere]", "no object of its inventory became"),
        ("https://", "https://me:hunter2@", "base_url: .*password"),
        ("function", "funktion", r"line 2: objects: no role 'funktion'.*function,"),
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
