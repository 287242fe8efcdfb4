"""The real pages of NumPy 2.0.2, served on loopback."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.sources.references import serve, tool
from tests.sources.sphinx_server import SiteServer
from toolbank.bank.records import Tool
from toolbank.config.assets import find_asset
from toolbank.sources.python.package import read_package
from toolbank.sources.python.settings import PythonSource
from toolbank.sources.sphinx.crawl import count, crawl_site
from toolbank.sources.sphinx.settings import SphinxSource
from toolbank.sources.sphinx.tools import Crawl

# What the installed package has and the tools of the pages of 2.0 have not, and why.
PACKAGE_ALONE = {
    "came after 2.0": {
        *("numpy.cumulative_prod", "numpy.cumulative_sum", "numpy.matvec"),
        *("numpy.strings.slice", "numpy.unstack", "numpy.vecmat"),
    },
    "a type or module that no table lists": {
        *("numpy.bool", "numpy.bool_", "numpy.character", "numpy.datetime64"),
        *("numpy.flexible", "numpy.generic", "numpy.object_", "numpy.void"),
        "numpy.testing.overrides",
    },
    "another name, which the pages leave out": {
        *("numpy.abs", "numpy.bitwise_not"),
    },
    "has no page": {
        *("numpy.index_exp", "numpy.row_stack", "numpy.trapezoid", "numpy.trapz"),
        *("numpy.strings.expandtabs", "numpy.strings.partition"),
        *("numpy.strings.rpartition", "numpy.testing.IgnoreException"),
        *("numpy.testing.KnownFailureException", "numpy.testing.break_cycles"),
        *("numpy.testing.check_support_sve", "numpy.testing.jiffies"),
        *("numpy.testing.memusage", "numpy.testing.run_threaded"),
        *("numpy.testing.tempdir", "numpy.testing.temppath"),
    },
}


def kinds(tools: Iterable[Tool]) -> dict[str, str]:
    return {name: one.kind for one in tools for name in (one.name, *one.aliases)}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SiteServer]:
    with serve("numpy", tmp_path_factory.mktemp("numpy")) as server:
        yield server


@pytest.fixture(scope="module")
def part(site: SiteServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawl]:
    """What four of the reference's pages list."""
    folder = tmp_path_factory.mktemp("part")
    ours = find_asset("crawlers", "numpy.yaml").path.read_text(encoding="utf-8")
    topics = ("set", "indexing", "bitwise", "lib")
    pages = ", ".join(f"reference/routines.{topic}.html" for topic in topics)
    (folder / "crawlers").mkdir()
    (folder / "crawlers" / "numpy.yaml").write_text(
        ours.replace("reference/*.html", pages), encoding="utf-8"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield crawl_site(
            SphinxSource(site="numpy", base_url=site.url), folder / "cache"
        )


def test_counts_add_up_and_no_page_failed(part: Crawl) -> None:
    info = count(part)
    skipped = sum(info["left_out"].values())
    assert info["objects"] == 8145 == info["tools"] + info["aliases"] + skipped
    assert not info["failed"]


def test_reads_all_kinds_of_objects(part: Crawl) -> None:
    kinds = {
        "numpy.unique": "function",
        "numpy.bitwise_and": "function",
        "numpy.c_": "object",
        "numpy.nditer": "class",
        "numpy.lib.format": "module",
    }
    assert {name: tool(part, name).kind for name in kinds} == kinds


def test_ufuncs_under_two_names_are_one_tool(part: Crawl) -> None:
    invert = tool(part, "numpy.invert")
    assert invert.aliases == ("numpy.bitwise_invert",)
    assert invert.signature.startswith("numpy.invert(x, /, out=None, *, where=True")


def test_every_tool_has_a_summary_in_plain_text(part: Crawl) -> None:
    for found in part.tools:
        assert found.summary
        for text in (found.summary, found.description, found.notes, found.deprecated):
            assert not any(mark in text for mark in ("¶", "[source]", "\\(", "&gt;"))


def test_the_package_read_by_introspection_has_every_tool_of_the_pages(
    part: Crawl,
) -> None:
    package = kinds(read_package(PythonSource(package="numpy")).tools)
    listed = kinds(part.tools)
    assert len(listed) > 40
    assert {name: package.get(name) for name in listed} == listed


@pytest.mark.slow
def test_package_and_all_pages_differ_in_what_is_known_alone(
    site: SiteServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = SphinxSource(site="numpy", base_url=site.url)
    pages = kinds(crawl_site(source, tmp_path).tools)
    package = kinds(read_package(PythonSource(package="numpy")).tools)
    assert len(pages) > 500
    assert {name: package.get(name) for name in pages} == pages
    assert package.keys() - pages.keys() == set().union(*PACKAGE_ALONE.values())


def test_a_function_carries_its_page(part: Crawl) -> None:
    unique = tool(part, "numpy.unique")
    assert unique.summary == "Find the unique elements of an array."
    assert list(unique.parameters["properties"]) == [
        *("ar", "return_index", "return_inverse", "return_counts", "axis", "equal_nan"),
    ]
    assert unique.parameters["required"] == ["ar"]
    assert unique.returns[0].name == "unique"
    assert unique.examples.startswith(">>> np.unique([1, 1, 2, 2, 3, 3])\narray([1, 2")
    assert [(see.name, see.description) for see in unique.see_also] == [
        ("numpy.repeat", "Repeat elements of an array.")
    ]
    assert tool(part, "numpy.in1d").deprecated
