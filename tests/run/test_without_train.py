"""A run on tools and labelled requests alone, without any to train on."""

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.run.test_dataset import check_refused, run, write_recipe
from tests.tiny_models import tiny_encoder
from tests.world import write_dataset, write_lines
from toolbank.bank.bank import Bank
from toolbank.commands.init import write_recipe as init_recipe
from toolbank.commands.show import show_outcomes
from toolbank.evaluation.figures import read_figures
from toolbank.run.plan import describe_plan
from toolbank.run.recipe import load_recipe
from toolbank.run.result import describe_result
from toolbank.search.run_search import load
from toolbank.system.errors import InputError

NOTE = "not fitted, since the dataset has no train queries: nearest"


@pytest.fixture
def tiny(tmp_path):
    return {"model": str(tiny_encoder(tmp_path / "tiny"))}


def write(folder, retrievers=None, split=lambda number: "test"):
    """Write the recipe, by default of no list, and its dataset with these splits; gives its path."""
    path = Path(write_recipe(folder))
    queries = folder / "data" / "queries.jsonl"
    rows = [json.loads(line) for line in queries.read_text().splitlines()]
    for number, row in enumerate(rows):
        row["split"] = split(number)
    write_lines(queries, rows)
    content = yaml.safe_load(path.read_text())
    del content["baselines"], content["retrievers"]
    if retrievers:
        content["retrievers"] = retrievers
    path.write_text(yaml.safe_dump(content))
    return str(path)


def untrained(tiny):
    return [
        {"type": "descriptions", "encoder": tiny},
        {"type": "nnn", "first_stage": "descriptions"},
        {"type": "decomposition", "first_stage": "descriptions"},
    ]


def test_methods_without_training_are_run(tmp_path, tiny, capsys):
    recipe = write(tmp_path, untrained(tiny))
    result = run(recipe, tmp_path / "out")
    labels = {"bm25", "descriptions", "nnn", "decomposition"}
    assert result.todo == ()
    assert NOTE in capsys.readouterr().err
    assert {path.name for path in result.folder.models.iterdir()} == labels
    figures = read_figures(result.folder.metrics)
    whole = [one for one in figures if one.set == "test"]
    assert {(one.retriever, one.n) for one in whole} == {(name, 40) for name in labels}
    assert all(one.low is not None for one in whole)
    folder = result.folder
    assert len(load(folder.path).search("Please tool_plot it", k=3)) == 3
    told = " ".join(describe_result(result, everything=True).split())
    assert "40 requests (0 train, 0 validation, 40 test)" in told
    for text in (told, folder.report.read_text()):
        assert "train request" not in text and "trained on" not in text
    assert "40" in show_outcomes(folder.path)
    assert run(recipe, folder.path).did == ()
    assert run(str(folder.path), folder.path).did == ()
    more = "retrievers.2={type: bm25, name: words}"
    assert "retrievers/words" in run(recipe, folder.path, more).did


def test_the_list_by_default_is_of_those_that_can(tmp_path):
    told = describe_plan(load_recipe(write(tmp_path)), tmp_path / "out")
    assert "retrievers/bm25 " in told
    assert "retrievers/descriptions " in told
    assert "retrievers/nearest" not in told
    assert f"{NOTE}, tool2vec" in told
    assert "0 train, 0 validation, 40 test" in told


def test_the_two_files_of_the_page_are_a_run(tmp_path):
    page = Path(__file__).parents[2] / "docs" / "datasets.md"
    tool, query = re.findall(r"^    (\{.*\})$", page.read_text(), re.MULTILINE)
    two = tmp_path / "two"
    write_dataset(two, [json.loads(tool)], [json.loads(query)])
    path, *_ = init_recipe(tmp_path / "mine.yaml", name="mine", dataset=two)
    bm25 = "retrievers=[{type: bm25}]"
    run(str(path), tmp_path / "out", bm25, "baselines=false")
    [hit] = load(tmp_path / "out").search("a noisy signal")
    assert hit.tool.name == "signal.smooth"


def test_a_listed_method_that_needs_train_queries_is_told_before_anything(tmp_path):
    recipe = write(
        tmp_path,
        [
            {"type": "nearest", "by": "bm25"},
            {"type": "bm25"},
            {"type": "decomposition", "first_stage": "nearest"},
            {"type": "mlc", "training": {"patience": 2}},
            {"type": "descriptions", "name": "tuned", "training": {}},
        ],
    )
    needing = "nearest, decomposition (over nearest), mlc, tuned"
    told = re.escape(f"(0 validation, 40 test), which these need: {needing}.")
    check_refused(recipe, tmp_path / "out", told)


def test_without_validation_a_search_takes_vectors_before_words(tmp_path, tiny):
    recipe = write(tmp_path, [{"type": "bm25"}, *untrained(tiny)])
    result = run(recipe, tmp_path / "out")
    assert load(result.folder.path).retriever.name == "descriptions"
    assert "`search` uses descriptions: there are no validation requests" in " ".join(
        describe_result(result).split()
    )


def test_with_validation_queries_a_search_takes_the_best_on_them(tmp_path, tiny):
    splits = ("validation", "test")
    recipe = write(tmp_path, untrained(tiny), lambda number: splits[number % 2])
    result = run(recipe, tmp_path / "out")
    told = " ".join(describe_result(result).split())
    assert "0 train, 20 validation, 20 test" in told
    assert "the highest R@5 on the 20 validation requests" in told


def test_all_queries_of_a_dataset_may_be_the_test(tmp_path):
    recipe = write(tmp_path, [{"type": "bm25"}], split=lambda _: None)
    all_of_it = "split={test: 1, validation: 0}"
    folder = run(recipe, tmp_path / "out", all_of_it, until="dataset").folder
    assert {query.split for query in Bank.load(folder.bank).queries} == {"test"}
    with pytest.raises(InputError, match=r"split.*leave nothing to train on"):
        load_recipe("quickstart", [all_of_it])
    with pytest.raises(InputError, match=r"split\.test: .*more than 1"):
        load_recipe(recipe, ["split.test=1"])


def test_no_tool_is_withheld_from_no_training(tmp_path):
    recipe = write(tmp_path, [{"type": "bm25"}])
    with pytest.raises(InputError, match=r"split\.withhold_tools: of 40 queries none"):
        run(recipe, tmp_path / "out", "split.withhold_tools=0.4")


def test_a_labelled_file_is_evaluated_on(tmp_path):
    recipe = write(tmp_path, [{"type": "bm25"}])
    own = tmp_path / "own.jsonl"
    own.write_text('{"query": "plot it", "tools": ["tool_plot"]}\n')
    setting = f"evaluate.on=[{own}]"
    settings = (setting, "baselines=false")
    told = describe_result(run(recipe, tmp_path / "out", *settings))
    assert "own (n = 1)" in told
    assert "Look at" not in told
