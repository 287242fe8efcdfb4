"""Rows that hold their own functions, and tables: what no file of tests/corpus/datasets shows."""

import json

import polars as pl
import pytest

from tests.corpus_files import CORPUS
from tests.datasets.loaders.samples import config
from tests.shared import shared
from toolbank.datasets import DATASETS, find_format
from toolbank.datasets.function_calling import find_calls
from toolbank.system.errors import InputError

FUNCTIONS = [
    {"name": "tide", "description": "List tides."},
    {"name": "berth", "description": "Find berths."},
]


def read(path, kind="function-calling", **more):
    return DATASETS.load(kind).read(config(kind, path, **more))


def labels(dataset):
    return {query.query: query.tools for query in dataset.queries}


def test_requests_without_answers_are_no_dataset(tmp_path):
    (tmp_path / "rows.csv").write_text("query,tools\nwhen?,tide\n")
    with pytest.raises(InputError, match=r"dataset\.tools(.|\n)*no row is in a form"):
        find_format(tmp_path / "rows.csv")


def test_a_file_of_several_requests_alone_is_refused():
    with pytest.raises(InputError, match=r"several requests, in a_turns.json \(2\)"):
        read(CORPUS / "datasets/bfcl-with-conversations/a_turns.json")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("[a()]", ["a"]),
        ('[Get Tide(x="b(", y=[f(1)]), other.name(z={"k": (1, 2)})]', 2),
        ("[]", []),
        ("No function fits (sorry).", []),
        ('[broken(x="', []),
    ],
)
def test_calls_are_found_in_a_text(text, names):
    found = find_calls(text)
    assert found == names if isinstance(names, list) else len(found) == names


def test_tables_may_be_parquet_in_parts(tmp_path):
    pl.DataFrame(FUNCTIONS).write_parquet(tmp_path / "tools.parquet")
    for number, tools in enumerate((["tide"], ["berth", "tide"])):
        rows = pl.DataFrame({"query": [f"{number}?"], "tools": [tools]})
        rows.write_parquet(tmp_path / f"queries-{number}.parquet")
    assert find_format(tmp_path).type == "table"
    assert labels(read(tmp_path, "table")) == {
        "0?": ("tide",),
        "1?": ("berth", "tide"),
    }


def test_a_table_names_tools_in_a_cell(tmp_path):
    table = tmp_path / "requests.tsv"
    table.write_text('query\ttools\n"High\twater?"\ttide; berth\n')
    catalogue = tmp_path / "functions.json"
    catalogue.write_text(json.dumps({"tools": FUNCTIONS}))
    dataset = read(table, "table", tools=catalogue)
    assert labels(dataset) == {"High\twater?": ("tide", "berth")}


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("request,tools\na,tide\n", 'line 2: no "query"'),
        ("query,tools\na,tide,more\n", "line 2"),
    ],
)
def test_a_table_without_its_columns_is_refused(content, place, tmp_path):
    (tmp_path / "queries.csv").write_text(content)
    (tmp_path / "tools.csv").write_text("name,description\ntide,Tides.\n")
    with pytest.raises(InputError, match=place):
        read(tmp_path, "table")


@pytest.mark.parametrize(
    ("name", "queries", "tools"),
    [
        ("bfcl", 3, 5),
        ("toolbench-instructions.json", 2, 4),
        ("xlam.json", 2, 2),
        ("toolace.json", 1, 2),
    ],
)
def test_published_rows(name, queries, tools):
    dataset = read(shared("cases") / "datasets" / name)
    assert (len(dataset.queries), len(dataset.tools)) == (queries, tools)
    assert not dataset.left_out.counts
