"""The published tool lists, from the references' own pages."""

import pytest

from tests.shared import shared
from tests.sources.references import serve, tool
from toolbank.config.assets import find_asset
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
def pandas(tmp_path_factory):
    """What the pages of two topics list."""
    folder = tmp_path_factory.mktemp("pandas")
    ours = find_asset("crawlers", "pandas.yaml").path.read_text(encoding="utf-8")
    head, _, _ = ours.partition("tables:")
    rules = f"{head}tables: [reference/general_functions.html, reference/plotting.html]"
    (folder / "crawlers").mkdir()
    (folder / "crawlers" / "pandas.yaml").write_text(rules, encoding="utf-8")
    with serve("pandas", folder) as server, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        source = SphinxSource(site="pandas", base_url=server.url)
        yield crawl_site(source, folder / "cache")


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
