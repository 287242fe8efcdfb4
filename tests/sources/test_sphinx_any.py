from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from tests.sources.sphinx_server import (
    SiteServer,
    copy_site,
    pack_inventory,
    write_inventory,
)
from toolbank.bank.files import read_tools
from toolbank.commands.app import make_app
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.files import read_json


@pytest.fixture
def site(tmp_path, monkeypatch):
    copy_site("guessed", tmp_path / "site")
    monkeypatch.chdir(tmp_path)
    with SiteServer(tmp_path / "site") as server:
        yield server


OUT, SITE = Path("out"), Path("site/en/latest")


def run_crawl(*args):
    return CliRunner().invoke(make_app(), ["crawl", *args, "--out", "out"])


def crawl(*args):
    result = run_crawl(*args)
    assert result.exit_code == 0, result.output
    return result.output


def tool_names():
    return [tool.name for tool in read_tools(OUT / "tools.parquet")]


@pytest.mark.parametrize(
    "address",
    ["", "en/latest", "en/latest/api.html", "en/latest/objects.inv", "en/latest/x/y/"],
)
def test_any_address_of_a_site_leads_to_its_tools(site, address):
    told = crawl("--sphinx", site.url + address)
    assert tool_names() == ["pkg.Box", "pkg.Box.open", "pkg.load"]
    rules = (OUT / "rules.yaml").read_text()
    assert yaml.safe_load(rules)["base_url"] == f"{site.url}en/latest/"
    assert rules in told
    site.asked.clear()
    crawl("--sphinx", site.url + address)
    assert site.asked == []


def test_a_second_crawl_puts_aside_only_what_was_edited_since(site, monkeypatch):
    crawl("--sphinx", site.url)
    # As in a container whose home is new each time.
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path("none").absolute()))
    crawl("--sphinx", site.url)
    assert not (OUT / "replaced").exists()
    (OUT / "rules.yaml").write_text("mine")
    crawl("--sphinx", site.url)
    [kept] = (path for path in (OUT / "replaced").rglob("*") if path.is_file())
    assert (kept.name, kept.read_text()) == ("rules.yaml", "mine")


def test_the_rules_it_prints_read_the_same_tools(site):
    crawl("--sphinx", site.url)
    tools = (OUT / "tools.parquet").read_bytes()
    Path("crawlers").mkdir()
    (OUT / "rules.yaml").rename("crawlers/mine.yaml")
    crawl("mine")
    assert (OUT / "tools.parquet").read_bytes() == tools


def test_every_object_that_is_no_tool_is_listed_with_its_reason(site):
    crawl("--sphinx", site.url)
    record = read_json(OUT / "crawl.json")
    assert record["left_out"] == {
        "excluded": ["py:function pkg._low"],
        "not of the py domain": ["std:doc api"],
        "not on its page": ["py:function pkg.gone"],
        "role attribute": ["py:attribute pkg.Box.size"],
    }
    left_out = sum(map(len, record["left_out"].values()))
    assert record["objects"] == record["tools"] + record["aliases"] + left_out == 7


def test_a_part_is_read_by_name_and_a_wrong_name_is_told_with_the_nearest(site):
    told = crawl("--sphinx", site.url, "--include", "pkg.Box", "--include", "pkg.lode")
    assert "include: there is no pkg.lode; did you mean pkg.load?" in told
    assert tool_names() == ["pkg.Box", "pkg.Box.open"]


def test_a_crawl_that_lost_pages_for_now_writes_what_it_has_and_fails(site):
    more = [("py:function", f"pkg.{name}", f"{name}.html#$") for name in ("up", "down")]
    write_inventory(SITE, [("py:function", "pkg.load", "api.html#$"), *more])
    site.statuses["/en/latest/up.html"] = site.statuses["/en/latest/down.html"] = [503]
    result = run_crawl("--sphinx", f"{site.url}en/latest")
    assert isinstance(result.exception, ToolbankError)
    assert "not complete" in str(result.exception)
    assert "2 pages failed (HTTP status 503)" in result.stderr
    assert tool_names() == ["pkg.load"]


def test_a_crawl_without_tools_still_lists_every_object(site):
    result = run_crawl("--sphinx", site.url, "--exclude", "pkg")
    assert isinstance(result.exception, InputError)
    record = read_json(OUT / "crawl.json")
    assert sum(map(len, record["left_out"].values())) == record["objects"] == 7


@pytest.mark.parametrize(
    ("status", "robots", "told"),
    [(401, "", "a login"), (403, "", "a login"), (200, "Disallow: /", "robots.txt")],
)
def test_a_site_that_denies_access_is_told(site, status, robots, told):
    Path("site/robots.txt").write_text(f"User-agent: *\n{robots}\n")
    site.statuses["/en/latest/objects.inv"] = [status]
    error = run_crawl("--sphinx", f"{site.url}en/latest/").exception
    assert isinstance(error, InputError) and told in str(error)


def test_signs_that_steer_a_terminal_are_not_printed(site):
    lines = "pkg.load py:function 1 api.html#$ -\npkg.\u202e py:a\x1b]0;x\x07 1 a -\n"
    packed = pack_inventory(lines, "# Project: Ev\x1b[31mil\x07\n# Version: 1")
    (SITE / "objects.inv").write_bytes(packed)
    told = crawl("--sphinx", site.url)
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
        (("--sphinx", "https://me:hunter2@x.example/"), "password"),
        (("numpy", "--contact", "me\nevil"), "contact"),
    ],
)
def test_what_makes_no_crawl_is_told(args, told):
    result = CliRunner().invoke(make_app(), ["crawl", *args])
    if isinstance(result.exception, InputError):
        assert told in str(result.exception)
        assert "hunter2" not in str(result.exception)
    else:
        assert result.exit_code == 2
        assert told in " ".join(result.output.split())
