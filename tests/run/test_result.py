"""What a run of a poor dataset advises, and what it says instead of figures."""

import json

import pytest

from toolbank.run.recipe import load_recipe
from toolbank.run.result import describe_result
from toolbank.run.run import run_recipe

RECIPE = """\
name: theirs
dataset: {type: jsonl, path: data}
baselines: false
retrievers: [{type: bm25}]
"""


@pytest.fixture
def told(tmp_path):
    """What a run says in the end of a dataset of so many queries, some of them changed."""

    def run(n, description="Sharpen a knife.", known=6, **changed):
        data = tmp_path / "data"
        data.mkdir()
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
        for name, rows in (("tools", tools), ("queries", queries)):
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (data / f"{name}.jsonl").write_text(text)
        path = tmp_path / "theirs.yaml"
        path.write_text(RECIPE)
        result = run_recipe(load_recipe(str(path)), tmp_path / "out")
        return " ".join(describe_result(result).split())

    return run


def test_of_a_sound_dataset_nothing_is_advised(told):
    text = told(40)
    assert "(24 train, 3 validation, 13 test). Retrieval on held-out" in text
    assert "`search` uses bm25: the highest R@5 on the 3 validation requests" in text


def test_so_few_tools_that_any_retriever_finds_them(told):
    assert "With 5 tools in all, R@5 is 100 for whatever ranks them all" in told(
        40, known=5
    )


def test_tools_without_descriptions(told):
    text = told(40, description="")
    assert "6 of 6 tools have no description" in text
    assert "Describe each in a sentence." in text


def test_ids_that_are_nearly_all_one(told):
    text = told(100, id="same")
    assert "Left out of the 100 requests of the dataset: 99, most" in text
    assert "its id is another's (99)" in text


def test_too_few_requests_to_test_on(told):
    text = told(12)
    assert "4 requests to test on are too few to tell retrievers apart" in text
    assert "No interval is given if n is below 10." in text


def test_no_request_to_test_on(told):
    text = told(3, split="train")
    assert "No request is left to test on" in text
    assert "test: no requests (n = 0), so there are no figures." in text
    assert "`search` uses bm25: there are no validation requests to choose by" in text
