"""The published tool lists, from the references' own pages."""

import pytest

from tests.shared import shared
from tests.sources.references import crawl_tables, serve, tool
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


def test_counts_add_up_and_no_page_failed(numpy):
    info = count(numpy)
    skipped = sum(info["left_out"].values())
    assert info["objects"] == 8145 == info["tools"] + info["aliases"] + skipped
    assert not info["failed"]


def test_reads_all_kinds_of_objects(numpy):
    kinds = {
        "numpy.unique": "function",
        "numpy.bitwise_and": "function",
        "numpy.c_": "object",
        "numpy.nditer": "class",
        "numpy.lib.format": "module",
    }
    assert {name: tool(numpy, name).kind for name in kinds} == kinds


def test_ufuncs_under_two_names_are_one_tool(numpy):
    invert = tool(numpy, "numpy.invert")
    assert invert.aliases == ("numpy.bitwise_invert",)
    assert invert.signature.startswith("numpy.invert(x, /, out=None, *, where=True")


def test_every_tool_has_a_summary_in_plain_text(numpy):
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


def test_a_function_carries_its_page(numpy):
    unique = tool(numpy, "numpy.unique")
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
    assert tool(numpy, "numpy.in1d").deprecated


@pytest.fixture(scope="module")
def pandas(tmp_path_factory):
    tables = ("reference/general_functions.html", "reference/plotting.html")
    with crawl_tables("pandas", tmp_path_factory.mktemp("pandas"), *tables) as crawl:
        yield crawl


def test_pandas_aliases_constants_and_odd_modules_are_found(pandas):
    assert tool(pandas, "pandas.isna").aliases == ("pandas.isnull",)
    assert tool(pandas, "pandas.plotting.plot_params").kind == "object"
    hashed = tool(pandas, "pandas.util.hash_array")
    assert hashed.returns[0].type == "ndarray[np.uint64, ndim=1]"


@pytest.fixture(scope="module")
def boto3(tmp_path_factory):
    """The client of one service."""
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


def test_nested_parameters_and_results_are_kept(boto3):
    publish = tool(boto3, "sns.client.publish_batch").parameters
    assert publish["required"] == ["TopicArn", "PublishBatchRequestEntries"]
    entry = publish["properties"]["PublishBatchRequestEntries"]["items"]
    assert entry["required"] == ["Id", "Message"]
    attribute = entry["properties"]["MessageAttributes"]["additionalProperties"]
    assert attribute["required"] == ["DataType"]
    assert list(attribute["properties"]) == ["DataType", "StringValue", "BinaryValue"]
    (returned,) = tool(boto3, "sns.client.list_topics").returns
    assert returned.type == "dict"
    assert returned.structure is not None
    topics = returned.structure["properties"]["Topics"]
    assert topics["items"]["properties"]["TopicArn"]["type"] == "string"


def test_one_parameter_alone_is_read_as_well(boto3):
    found = tool(boto3, "sns.client.check_if_phone_number_is_opted_out").parameters
    assert found["required"] == ["phoneNumber"]
    assert found["properties"]["phoneNumber"]["type"] == "string"
