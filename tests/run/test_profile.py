"""What a run says of its requests: their classes and copies, and what is in no split."""

import json

import pytest

from tests.commands.in_process import do
from tests.world import write_dataset, write_dataset_recipe, write_lines
from toolbank.bank.frames import load_bank
from toolbank.commands.evaluate import evaluate_run
from toolbank.run.folder import RunFolder
from toolbank.run.plan import describe_plan
from toolbank.run.recipe import load_recipe
from toolbank.run.result import describe_result
from toolbank.run.run import run_recipe

TOOLS = [f"kit.{noun}" for noun in ("river", "stone", "cloud", "lantern", "copper")]
TEXT = (
    "in the year {} we carried a {} over the hills of the north until the winter came"
)


@pytest.fixture
def recipe(tmp_path):
    """A dataset with its own splits: 20 train, of which one is a test request in capitals."""
    rows = [
        {
            "id": f"{number}",
            "query": TEXT.format(number * 111, TOOLS[number % 5][4:]),
            "tools": [TOOLS[number % 5]],
            "split": "test" if number < 4 else "validation" if number < 6 else "train",
        }
        for number in range(25)
    ]
    copy = {
        **rows[0],
        "id": "copy",
        "query": rows[0]["query"].upper(),
        "split": "train",
    }
    write_dataset(tmp_path / "data", TOOLS, [*rows, copy])
    return write_dataset_recipe(tmp_path, "mine")


def run(recipe, out, *settings):
    return run_recipe(load_recipe(recipe, settings), out)


def read_copies(folder):
    sets = json.loads((folder / "copies.json").read_text())["sets"]
    return {(one["of"], one["against"]): one for one in sets}


def test_classes_are_columns_and_axes_of_the_evaluation(recipe, tmp_path):
    result = run(recipe, tmp_path / "out")
    queries = load_bank(tmp_path / "out").queries
    assert queries["fits"].unique().to_list() == ["1"]
    assert queries["difficulty"].null_count() == queries["wording"].null_count() == 0
    sizes = {
        one["set"]: one["n"] for one in json.loads(result.folder.metrics.read_text())
    }
    assert sizes["test-fits-1"] == sizes["test"] == 4
    for axis in ("wording", "difficulty"):
        parts = [n for name, n in sizes.items() if name.startswith(f"test-{axis}-")]
        assert sum(parts) == 4
    page = " ".join((tmp_path / "out/report.html").read_text().split())
    assert '<th scope="row">evaluated</th><td>4</td><td>0</td><td>0</td>' in page
    table = evaluate_run(tmp_path / "out", (), None, everything=True).text
    assert "by difficulty" in table and "easy (n = 4)" in table
    # A bank of an earlier version has none, and is still evaluated.
    (tmp_path / "out/bank/profile.parquet").unlink()
    assert load_bank(tmp_path / "out").queries["fits"].null_count() == 26
    table = evaluate_run(tmp_path / "out", (), None, everything=True).text
    assert "by difficulty" not in table


def test_copies_are_counted_and_dropped_from_train_alone(recipe, tmp_path):
    public = write_lines(
        tmp_path / "public.jsonl", [{"query": TEXT.format(777, "cloud")}]
    )
    against = f"profile.copies.against=[{public}]"
    kept = run(recipe, tmp_path / "kept", against)
    found = read_copies(tmp_path / "kept")
    assert found["train", "test"]["same"] == found["train", "public.jsonl"]["same"] == 1
    assert "in no split" not in describe_result(kept)
    page = (tmp_path / "kept/report.html").read_text()
    assert TEXT.format(0, "river").upper() in page

    drop = ("profile.copies.drop=true", against)
    dropped = run(recipe, tmp_path / "dropped", *drop)
    assert "18 train, 2 validation, 4 test, 2 in no split" in describe_result(dropped)
    assert not any(one["same"] for one in read_copies(tmp_path / "dropped").values())
    info = json.loads((tmp_path / "dropped/bank/bank.json").read_text())
    assert info["copies"] == {"queries_left_out": 2}
    assert info["splits"] == {"train": 18, "validation": 2, "test": 4}
    page = (tmp_path / "dropped/report.html").read_text()
    assert "2 in no split" in page and "2 train requests were dropped" in page


def test_another_public_set_is_looked_at_again(recipe, tmp_path):
    public = write_lines(tmp_path / "public.jsonl", [{"query": "nothing alike"}])
    against = f"profile.copies.against=[{public}]"
    assert run(recipe, tmp_path / "out", against).did[-1] == "report"
    assert not run(recipe, tmp_path / "out", against).did
    write_lines(public, [{"query": TEXT.format(777, "cloud")}])
    assert run(recipe, tmp_path / "out", against).did == ("profile", "report")
    assert read_copies(tmp_path / "out")["train", "public.jsonl"]["same"] == 1


def test_a_plan_says_how_many_are_in_no_split(recipe, tmp_path):
    loaded = load_recipe(recipe, ["split.withhold_tools=0.2"])
    assert "4 in no split" in describe_plan(loaded, RunFolder(tmp_path / "out").path)


def test_a_set_that_is_not_there_is_named_with_its_option(recipe, tmp_path):
    run(recipe, tmp_path / "out")
    done = do(tmp_path, "profile", "out", "--against", "missing.jsonl", code=2)
    assert "'--against': path 'missing.jsonl'" in done.stderr
