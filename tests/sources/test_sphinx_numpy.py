"""The real pages of NumPy 2.0.2, served on loopback."""

import pytest

from tests.sources.references import serve, tool
from toolbank.config.assets import find_asset
from toolbank.sources.python.package import read_package
from toolbank.sources.python.settings import PythonSource
from toolbank.sources.sphinx.crawl import count, crawl_site
from toolbank.sources.sphinx.settings import SphinxSource


def kinds(tools):
    return {name: one.kind for one in tools for name in (one.name, *one.aliases)}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with serve("numpy", tmp_path_factory.mktemp("numpy")) as server:
        yield server


@pytest.fixture(scope="module")
def part(site, tmp_path_factory):
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


def test_counts_add_up_and_no_page_failed(part):
    info = count(part)
    skipped = sum(info["left_out"].values())
    assert info["objects"] == 8145 == info["tools"] + info["aliases"] + skipped
    assert not info["failed"]


def test_reads_all_kinds_of_objects(part):
    kinds = {
        "numpy.unique": "function",
        "numpy.bitwise_and": "function",
        "numpy.c_": "object",
        "numpy.nditer": "class",
        "numpy.lib.format": "module",
    }
    assert {name: tool(part, name).kind for name in kinds} == kinds


def test_ufuncs_under_two_names_are_one_tool(part):
    invert = tool(part, "numpy.invert")
    assert invert.aliases == ("numpy.bitwise_invert",)
    assert invert.signature.startswith("numpy.invert(x, /, out=None, *, where=True")


def test_every_tool_has_a_summary_in_plain_text(part):
    for found in part.tools:
        assert found.summary
        for text in (found.summary, found.description, found.notes, found.deprecated):
            assert not any(mark in text for mark in ("¶", "[source]", "\\(", "&gt;"))


def test_the_package_read_by_introspection_has_every_tool_of_the_pages(part):
    package = kinds(read_package(PythonSource(package="numpy")).tools)
    listed = kinds(part.tools)
    assert len(listed) > 40
    assert {name: package.get(name) for name in listed} == listed


def test_a_function_carries_its_page(part):
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
