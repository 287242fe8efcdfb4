"""A run whose bank is a dataset of others."""

import json
import re
import shutil

import pytest

from tests.world import write_dataset, write_dataset_recipe
from toolbank.bank.bank import Bank
from toolbank.commands.evaluate import evaluate_run
from toolbank.commands.preview import preview_attempts
from toolbank.commands.show import show_attempt, show_outcomes
from toolbank.run.plan import describe_plan
from toolbank.run.recipe import load_recipe
from toolbank.run.refresh import refresh_run
from toolbank.run.result import describe_result
from toolbank.run.run import run_recipe
from toolbank.search.run_search import load
from toolbank.system.errors import InputError

NAMES = [f"tool_{word}" for word in ("mean", "sort", "plot", "sum", "join")]


@pytest.fixture
def recipe(tmp_path):
    return write_recipe(tmp_path)


def write_recipe(tmp_path):
    """Write a recipe and its dataset of 5 tools and 40 queries; gives its path."""
    queries = [
        {
            "id": f"q{i}",
            "query": f"Please {NAMES[i % 5]} it, {i} times.",
            "tools": [NAMES[i % 5], NAMES[i * 2 % 5]],
            "split": "test" if i % 4 == 0 else "train",
        }
        for i in range(40)
    ]
    queries.append({"id": "odd", "query": "?", "tools": ["gone"], "split": "train"})
    write_dataset(tmp_path / "data", NAMES, queries)
    dataset = {"type": "jsonl", "path": "data", "ordered": True}
    settings = {"dataset": dataset, "evaluate": {"resamples": 100}}
    return write_dataset_recipe(tmp_path, "theirs", **settings)


def run(recipe, out, *settings, **options):
    return run_recipe(load_recipe(recipe, settings), out, **options)


def check_refused(recipe, out, told):
    """A run and its plan refuse the recipe, and nothing is written."""
    for work in (run_recipe, describe_plan):
        with pytest.raises(InputError, match=told):
            work(load_recipe(recipe), out)
    assert not out.exists()


def test_it_is_split_evaluated_and_reported(recipe, tmp_path):
    result = run(recipe, tmp_path / "out")
    assert result.did == ("dataset", "profile", "retrievers/bm25", "evaluate", "report")
    bank = Bank.load(result.folder.bank)
    assert (len(bank.tools), len(bank.queries)) == (5, 40)
    info = bank.info
    assert info["splits"] == {"train": 27, "validation": 3, "test": 10}
    assert info["ordered"] is True
    assert info["left_out"]["query: needs a tool that is not listed"]["count"] == 1
    assert set(info["dataset"]["files"]) == {"tools.jsonl", "queries.jsonl"}
    told = describe_result(result)
    assert "5 tools, 40 requests (27 train, 3 validation, 10 test)." in told
    assert "test (n = 10)" in told
    assert "`search` uses bm25: the highest R@5 on the 3 validation requests" in told
    assert f'toolbank search {tmp_path / "out"} "your request"' in told
    assert "nDCG" not in told
    assert "nDCG" in describe_result(result, everything=True)
    assert result.todo == ()
    again = run(str(tmp_path / "out"), tmp_path / "out")
    assert again.did == ()


def test_the_bank_is_the_same_bytes_wherever_the_data_lies(recipe, tmp_path):
    first = run(recipe, tmp_path / "a", until="dataset").folder.bank
    (tmp_path / "data").rename(tmp_path / "moved")
    moved = f"dataset.path={tmp_path / 'moved'}"
    second = run(recipe, tmp_path / "b", moved, until="dataset").folder.bank
    names = sorted(path.name for path in first.iterdir())
    assert names == ["bank.json", "queries.parquet", "tools.parquet"]
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_changed_data_makes_the_bank_anew(recipe, tmp_path):
    run(recipe, tmp_path / "out", until="dataset")
    with pytest.raises(InputError, match="a run on a dataset"):
        refresh_run(tmp_path / "out")
    with (tmp_path / "data" / "queries.jsonl").open("a") as file:
        file.write('{"query": "more", "tools": ["tool_mean"], "split": "train"}\n')
    assert run(recipe, tmp_path / "out", until="dataset").did == ("dataset",)


def test_withheld_tools_are_new_to_the_test(recipe, tmp_path):
    result = run(recipe, tmp_path / "out", "split.withhold_tools=0.2")
    bank = Bank.load(result.folder.bank)
    (name,) = bank.info["withheld"]["tools"]
    for split in ("train", "validation"):
        assert all(name not in query.tools for query in bank.split(split))
    left_out = sum(query.split is None for query in bank.queries)
    assert left_out == bank.info["withheld"]["queries_left_out"] > 0
    assert len(bank.split("test")) == 10
    lines = (result.folder.hits / "bm25.jsonl").read_text().splitlines()
    for line in map(json.loads, lines):
        assert ("test-unseen-tools" in line["parts"]) == (name in line["tools"])


def test_search_takes_the_best_on_validation_if_not_told(recipe, tmp_path):
    both = "retrievers=[{type: bm25}, {type: nearest, by: bm25, name: votes}]"
    folder = run(recipe, tmp_path / "out", both, until="evaluate").folder
    records = json.loads(folder.validation.read_text())
    assert {record["n"] for record in records} == {3}
    for best in ("votes", "bm25"):
        for record in records:
            record["value"] = 0.9 if record["retriever"] == best else 0.1
        folder.validation.write_text(json.dumps(records))
        assert load(folder.path).retriever.name == best
    folder.validation.unlink()
    assert load(folder.path).retriever.name == "bm25"
    assert load(folder.path, "votes").retriever.name == "votes"


def test_it_makes_no_bank(recipe, tmp_path):
    out = tmp_path / "out"
    for stage in ("generate", "judge"):
        with pytest.raises(
            InputError, match=rf"no stage {stage}.*dataset, profile, retrievers"
        ):
            run(recipe, out, until=stage)
    with pytest.raises(InputError, match=r"no stage dataset.*sources, generate"):
        run("quickstart", out, until="dataset")
    assert "Generation" not in describe_plan(load_recipe(recipe), out)
    with pytest.raises(InputError, match="from a dataset"):
        list(preview_attempts(load_recipe(recipe).recipe, out, 1))


def test_its_queries_are_shown_with_their_tools(recipe, tmp_path):
    folder = run(recipe, tmp_path / "out", until="dataset").folder
    listed = show_outcomes(folder.path)
    assert re.search(r"test +10  q0, q4, q8, q12", listed)
    shown = show_attempt(folder.path, "q12")
    assert "Please tool_plot it, 12 times." in shown
    with pytest.raises(InputError, match=r"nope: no query .*from a dataset"):
        show_attempt(folder.path, "nope")


def damage(path, harm):
    path.write_text("{") if harm == "damaged" else path.unlink()


@pytest.mark.parametrize("harm", ["damaged", "missing"])
def test_a_model_that_is_harmed_is_told_with_the_remedy(recipe, tmp_path, harm):
    folder = run(recipe, tmp_path / "out", until="evaluate").folder
    damage(folder.models / "bm25" / "tools.json", harm)
    remedy = f"toolbank run {folder.path}"
    with pytest.raises(InputError, match=f"tools.json: .*{remedy}"):
        load(folder.path, "bm25")
    with pytest.raises(InputError, match=f"tools.json: {harm}.*{remedy}"):
        evaluate_run(folder.path, (), None)
    assert run(recipe, folder.path, until="evaluate").did == ("retrievers/bm25",)
    assert load(folder.path, "bm25").search("plot it")


def test_a_model_whose_folder_is_gone_is_told_from_one_that_never_was(recipe, tmp_path):
    both = "retrievers=[{type: bm25}, {type: nearest, by: bm25, name: votes}]"
    folder = run(recipe, tmp_path / "out", both, until="retrievers").folder
    shutil.rmtree(folder.models / "votes")
    with pytest.raises(InputError, match=r"models/votes: missing.*toolbank run"):
        load(folder.path, "votes")
    with pytest.raises(InputError, match="no retriever 'nope'; there are: bm25"):
        load(folder.path, "nope")


@pytest.mark.parametrize("harm", ["damaged", "missing"])
def test_a_lost_account_of_what_is_done_is_told(recipe, tmp_path, harm, capsys):
    folder = run(recipe, tmp_path / "out").folder
    damage(folder.path / "stages.json", harm)
    told = f"stages.json: {harm}, "
    assert told in describe_plan(load_recipe(recipe), folder.path)
    with pytest.raises(InputError, match=told):
        evaluate_run(folder.path, (), None)
    capsys.readouterr()
    run(recipe, folder.path)
    assert told in capsys.readouterr().err
    assert told not in describe_plan(load_recipe(recipe), folder.path)
