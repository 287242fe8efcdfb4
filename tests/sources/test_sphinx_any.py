"""Sites that no rules were written for, from any of their addresses."""

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from tests.sources.sphinx_server import (
    PAGE,
    SiteServer,
    described,
    pack_inventory,
    signed,
    write_inventory,
)
from toolbank.bank.files import read_tools
from toolbank.commands.app import make_app
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.files import read_json


@pytest.fixture
def site(tmp_path):
    """A site in /en/latest/ that its front page leads to."""
    folder = tmp_path / "site" / "en" / "latest"
    folder.mkdir(parents=True)
    (tmp_path / "site" / "index.html").write_text(
        '<html><head><meta http-equiv="refresh" content="0; url=en/latest/"></head></html>'
    )
    (folder / "index.html").write_text(PAGE.format("<h1>Welcome</h1>"))
    body = (
        described("pkg.load", "<p>Load a file.</p>", signed("path"))
        + described("pkg._low", "<p>Low level.</p>", signed())
        + described(
            "pkg.Box",
            "<p>Holds things.</p>"
            + described("pkg.Box.open", "<p>Open it.</p>", signed(), "method"),
            signed("size=3"),
            "class",
        )
    )
    (folder / "api.html").write_text(PAGE.format(body))
    write_inventory(
        folder,
        [
            ("py:function", "pkg.load", "api.html#$"),
            ("py:function", "pkg._low", "api.html#$"),
            ("py:function", "pkg.gone", "api.html#$"),
            ("py:class", "pkg.Box", "api.html#$"),
            ("py:method", "pkg.Box.open", "api.html#$"),
            ("py:attribute", "pkg.Box.size", "api.html#$"),
            ("std:doc", "api", "api.html"),
        ],
    )
    with SiteServer(tmp_path / "site") as server:
        yield server


def refusal(*args):
    """The exception that a crawl ends with, and what it printed on stderr."""
    result = CliRunner().invoke(make_app(), ["crawl", *args])
    return result.exception, result.stderr


def crawl(*args):
    result = CliRunner().invoke(make_app(), ["crawl", *args], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(
    "address",
    ["", "en/latest", "en/latest/api.html", "en/latest/objects.inv", "en/latest/x/y/"],
)
def test_any_address_of_a_site_leads_to_its_tools(site, tmp_path, address):
    out = tmp_path / "out"
    told = crawl("--sphinx", site.url + address, "--out", str(out))
    names = [tool.name for tool in read_tools(out / "tools.parquet")]
    assert names == ["pkg.Box", "pkg.Box.open", "pkg.load"]
    rules = yaml.safe_load((out / "rules.yaml").read_text())
    assert rules["base_url"] == f"{site.url}en/latest/"
    assert (out / "rules.yaml").read_text() in told
    site.asked.clear()
    crawl("--sphinx", site.url + address, "--out", str(out))
    assert site.asked == []


def test_a_second_crawl_puts_aside_only_what_was_edited_since(
    site, tmp_path, monkeypatch
):
    out = tmp_path / "out"
    crawl("--sphinx", site.url, "--out", str(out))
    # As in a container whose home is new each time.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    crawl("--sphinx", site.url, "--out", str(out))
    assert not (out / "replaced").exists()
    (out / "rules.yaml").write_text("mine")
    crawl("--sphinx", site.url, "--out", str(out))
    [kept] = (path for path in (out / "replaced").rglob("*") if path.is_file())
    assert (kept.name, kept.read_text()) == ("rules.yaml", "mine")


def test_the_rules_it_prints_read_the_same_tools(site, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    crawl("--sphinx", site.url, "--out", "guessed")
    Path("crawlers").mkdir()
    rules = Path("guessed/rules.yaml").read_text()
    Path("crawlers/mine.yaml").write_text(rules)
    crawl("mine")
    kept = Path("crawls/mine/tools.parquet")
    assert kept.read_bytes() == Path("guessed/tools.parquet").read_bytes()


def test_every_object_that_is_no_tool_is_listed_with_its_reason(site, tmp_path):
    out = tmp_path / "out"
    crawl("--sphinx", site.url, "--out", str(out))
    record = read_json(out / "crawl.json")
    assert record["left_out"] == {
        "excluded": ["py:function pkg._low"],
        "not of the py domain": ["std:doc api"],
        "not on its page": ["py:function pkg.gone"],
        "role attribute": ["py:attribute pkg.Box.size"],
    }
    left_out = sum(map(len, record["left_out"].values()))
    assert record["objects"] == record["tools"] + record["aliases"] + left_out == 7


def test_a_part_is_read_by_name_and_a_wrong_name_is_told_with_the_nearest(
    site, tmp_path
):
    names = ("--include", "pkg.Box", "--include", "pkg.lode")
    out = tmp_path / "out"
    error, told = refusal("--sphinx", site.url, *names, "--out", str(out))
    assert error is None
    assert "include: there is no pkg.lode; did you mean pkg.load?" in told
    tools = read_tools(out / "tools.parquet")
    assert [tool.name for tool in tools] == ["pkg.Box", "pkg.Box.open"]


def test_a_crawl_that_lost_pages_for_now_writes_what_it_has_and_fails(site, tmp_path):
    folder = tmp_path / "site" / "en" / "latest"
    (folder / "more.html").write_text(
        PAGE.format(described("pkg.more", "<p>More.</p>"))
    )
    write_inventory(
        folder,
        [
            ("py:function", "pkg.load", "api.html#$"),
            ("py:function", "pkg.more", "more.html#$"),
        ],
    )
    site.statuses["/en/latest/more.html"] = [503]
    out = tmp_path / "out"
    error, told = refusal("--sphinx", f"{site.url}en/latest", "--out", str(out))
    assert isinstance(error, ToolbankError) and "not complete" in str(error)
    assert "1 page failed (HTTP status 503)" in told
    assert [tool.name for tool in read_tools(out / "tools.parquet")] == ["pkg.load"]


def test_a_crawl_without_tools_still_lists_every_object(site, tmp_path):
    out = tmp_path / "out"
    arguments = ("--sphinx", site.url, "--exclude", "pkg", "--out", str(out))
    assert isinstance(refusal(*arguments)[0], InputError)
    record = read_json(out / "crawl.json")
    assert sum(map(len, record["left_out"].values())) == record["objects"] == 7


@pytest.mark.parametrize("status", [401, 403])
def test_a_site_that_denies_access_is_told(site, tmp_path, status):
    site.statuses["/en/latest/objects.inv"] = [status]
    out = str(tmp_path / "out")
    error, _ = refusal("--sphinx", f"{site.url}en/latest/", "--out", out)
    assert isinstance(error, InputError) and "a login" in str(error)


def test_a_site_that_forbids_programs_is_told(site, tmp_path):
    (tmp_path / "site" / "robots.txt").write_text("User-agent: *\nDisallow: /\n")
    out = str(tmp_path / "out")
    error, _ = refusal("--sphinx", f"{site.url}en/latest/", "--out", out)
    assert isinstance(error, InputError) and "robots.txt" in str(error)


def test_signs_that_steer_a_terminal_are_not_printed(site, tmp_path):
    folder = tmp_path / "site" / "en" / "latest"
    lines = "pkg.load py:function 1 api.html#$ -\npkg.\u202e py:a\x1b]0;x\x07 1 a -\n"
    packed = pack_inventory(lines, "# Project: Ev\x1b[31mil\x07\n# Version: 1")
    (folder / "objects.inv").write_bytes(packed)
    told = crawl("--sphinx", site.url, "--out", str(tmp_path / "out"))
    assert "Ev" in told
    assert not {"\x1b", "\x07", "\u202e"} & set(told)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ((), "Give a site"),
        (("numpy", "--sphinx", "http://127.0.0.1:9/"), "without a site's name"),
        (("numpy", "--diff", "a", "b"), "stands alone"),
        (("--diff", "a", "b", "--refresh"), "stands alone"),
        (("numpy", "--out", "tools.parquet"), "folder"),
        (("--sphinx", "http://127.0.0.1:9/\n"), "no site's address"),
        (("--sphinx", "nowhere"), "'nowhere' is no site's address"),
        (("numpy", "--contact", "me\nevil"), "contact"),
    ],
)
def test_what_makes_no_crawl_is_told(args, told):
    result = CliRunner().invoke(make_app(), ["crawl", *args])
    if isinstance(result.exception, InputError):
        assert told in str(result.exception)
    else:
        assert result.exit_code == 2
        assert told in " ".join(result.output.split())
