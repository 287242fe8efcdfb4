import json

import pytest

from tests.corpus_files import CORPUS, check_expected
from tests.shared import shared
from tests.sources.references import crawl_tables, serve
from toolbank.sources.python.package import read_package
from toolbank.sources.python.settings import PythonSource
from toolbank.sources.sphinx.crawl import count, crawl_site, record
from toolbank.sources.sphinx.settings import SphinxSource


@pytest.mark.slow
@pytest.mark.parametrize(
    ("site", "include", "precision"),
    [
        ("numpy", (), 0.99),
        ("pandas", (), 0.93),
        ("boto3", ("ec2", "iam", "rds", "sns"), 1.0),
    ],
)
def test_finds_every_published_name_and_little_else(site, include, precision, tmp_path):
    with serve(site, tmp_path) as server:
        source = SphinxSource(site=site, base_url=server.url, include=include)
        result = crawl_site(source, tmp_path / "cache")
    names = set(shared(f"data/toolbank-names/{site}.txt").read_text().split())
    found = {name for tool in result.tools for name in (tool.name, *tool.aliases)}
    assert names <= found
    assert len(names) / len(found) >= precision
    assert not count(result)["failed"]
    left_out = sum(map(len, record(result)["left_out"].values()))
    others = sum(map(len, record(result)["other_names"].values()))
    assert record(result)["objects"] == len(result.tools) + others + left_out


@pytest.fixture(scope="module")
def numpy(tmp_path_factory):
    topics = ("set", "indexing", "bitwise", "lib")
    tables = (f"reference/routines.{topic}.html" for topic in topics)
    with crawl_tables("numpy", tmp_path_factory.mktemp("numpy"), *tables) as crawl:
        yield crawl


@pytest.mark.parametrize("site", ["numpy", "pandas", "boto3"])
def test_tools_are_read_as_expected(site, request, update_corpus):
    """All of each but its prose."""
    expected = CORPUS / "references" / f"{site}.tools.json"
    read = request.getfixturevalue(site).tools
    prose = {"description", "notes", "examples"}
    tools = {t.name: t.model_dump(exclude_defaults=True, exclude=prose) for t in read}
    found = {name: tools[name] for name in json.loads(expected.read_text())}
    check_expected(expected, found, update=update_corpus)


def test_no_page_failed_and_every_tool_has_a_summary_in_plain_text(numpy):
    info = count(numpy)
    skipped = sum(info["left_out"].values())
    assert info["objects"] == 8145 == info["tools"] + info["aliases"] + skipped
    assert not info["failed"]
    for found in numpy.tools:
        assert found.summary
        for text in (found.summary, found.description, found.notes, found.deprecated):
            assert not any(mark in text for mark in ("¶", "[source]", "\\(", "&gt;"))


def test_the_package_read_by_introspection_has_every_tool_of_the_pages(numpy):
    package, pages = (
        {name: one.kind for one in tools for name in (one.name, *one.aliases)}
        for tools in (read_package(PythonSource(package="numpy")).tools, numpy.tools)
    )
    assert len(pages) > 40
    assert pages.items() <= package.items()


@pytest.fixture(scope="module")
def pandas(tmp_path_factory):
    tables = ("reference/general_functions.html", "reference/plotting.html")
    with crawl_tables("pandas", tmp_path_factory.mktemp("pandas"), *tables) as crawl:
        yield crawl


@pytest.fixture(scope="module")
def boto3(tmp_path_factory):
    folder = tmp_path_factory.mktemp("boto3")
    with serve("boto3", folder) as server:
        source = SphinxSource(
            site="boto3", base_url=server.url, include=("sns.client",)
        )
        yield crawl_site(source, folder / "cache")
        asked = [path for path in server.asked if "/services/" in path]
        assert all("/sns/client/" in path for path in asked)


def test_a_recipe_names_the_services_it_wants(boto3):
    assert len(boto3.tools) == 46
    assert {item.name.rpartition(".")[0] for item in boto3.tools} == {"sns.client"}
    assert count(boto3)["left_out"]["not included"] == 1112 + 890 - 46
