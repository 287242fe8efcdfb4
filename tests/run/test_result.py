"""What a run of a poor dataset advises, and what it says instead of figures."""

import pytest

from tests.world import write_dataset, write_dataset_recipe
from toolbank.run.recipe import load_recipe
from toolbank.run.result import describe_result
from toolbank.run.run import run_recipe


@pytest.fixture
def told(tmp_path):
    """What a run says in the end of a dataset of so many queries, some of them changed."""

    def run(n, description="Sharpen a knife.", known=6, **changed):
        tools = [{"name": f"t{i}", "description": description} for i in range(known)]
        queries = [
            {
                "id": f"q{i}",
                "query": f"Sharpen knife number {i}, please.",
                "tools": [f"t{i % known}"],
                "split": "test" if i % 3 == 1 else "train",
            }
            | changed
            for i in range(n)
        ]
        write_dataset(tmp_path / "data", tools, queries)
        path = write_dataset_recipe(tmp_path, "theirs")
        result = run_recipe(load_recipe(path), tmp_path / "out")
        return " ".join(describe_result(result).split())

    return run


@pytest.mark.parametrize(
    ("dataset", "lines"),
    [
        (
            {"n": 40},
            [
                "(24 train, 3 validation, 13 test). Retrieval on held-out",
                "`search` uses bm25: the highest R@5 on the 3 validation requests",
            ],
        ),
        ({"n": 40, "known": 5}, ["With 5 tools in all, R@5 is 100"]),
        ({"n": 40, "description": ""}, ["6 of 6 tools have no description"]),
        ({"n": 100, "id": "same"}, ["99 of the 100 requests of the dataset", "(99)"]),
        (
            {"n": 12},
            ["4 test requests are too few", "interval is given if n is below 10."],
        ),
        (
            {"n": 3, "split": "train"},
            [
                "There are no test requests",
                "test: no requests (n = 0)",
                "`search` uses bm25: there are no validation requests",
            ],
        ),
    ],
)
def test_what_is_advised_of_a_dataset(told, dataset, lines):
    text = told(**dataset)
    assert [line for line in lines if line not in text] == []
