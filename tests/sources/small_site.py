"""A served site of four functions, each on a page of its own."""

import json
import os
from pathlib import Path

import pytest

from tests.sources.sphinx_server import (
    PAGE,
    SiteServer,
    described,
    write_inventory,
    write_small_site,
)
from toolbank.sources.sphinx.crawl import count, crawl_site
from toolbank.sources.sphinx.settings import SphinxSource
from toolbank.sources.web import download

FIRST = "/small.f0.html"
ALL = ["f0", "f1", "f2", "f3"]
REST = ALL[1:]
GOOD = PAGE.format(described("small.f0", "<p>Do it.</p>")).encode()
NOON = 1_900_000_000.0


class Hours:
    """Time that passes only when a crawl waits, or a test says so.

    `waits` says of each pause how long it was, and how many requests had come in before.
    """

    def __init__(self, server):
        self.passed = 0.0
        self.waits = []
        self._server = server

    def monotonic(self):
        return self.passed

    def time(self):
        return NOON + self.passed

    async def wait(self, _, seconds):
        self.waits.append((seconds, len(self._server.asked)))
        self.passed += seconds


@pytest.fixture
def small(tmp_path, monkeypatch):
    """The site; its files lie in site/ of the test's folder, which is the current one."""
    write_small_site(tmp_path)
    monkeypatch.chdir(tmp_path)
    for variable in [key for key in os.environ if key.lower().endswith("_proxy")]:
        monkeypatch.delenv(variable)
    with SiteServer(tmp_path / "site") as server:
        yield server


def crawl_small(server, url="", **policy):
    """Crawl it, with its cache in cache/."""
    source = SphinxSource(site="small", base_url=url or server.url, crawl=policy)
    return crawl_site(source, Path("cache"))


def names(result):
    return [tool.name.rpartition(".")[2] for tool in result.tools]


def failure(result, path=FIRST):
    return str(count(result)["failed_pages"][path.lstrip("/")])


@pytest.fixture
def hours(small, monkeypatch):
    passing = Hours(small)
    monkeypatch.setattr(download, "time", passing)
    monkeypatch.setattr(download, "_wait", passing.wait)
    return passing


def list_only(*names):
    """Let the site have these functions alone: a public one is asked slowly."""
    listed = (f"small.{name}" for name in names)
    write_inventory(
        Path("site"), [("py:function", name, f"{name}.html#$") for name in listed]
    )


def forget(path):
    for file in Path("cache").rglob("[0-9a-f]" * 64):
        head = json.loads(file.read_bytes().partition(b"\n")[0])
        if head["url"].endswith(path):
            file.unlink()
