"""The trainings in a plan, each with its steps."""

import re

import pytest
import yaml

from tests.training.small_run import write_recipe
from tests.world import write_lines
from toolbank.bank.bank import Bank
from toolbank.bank.records import Tool
from toolbank.run.outlook import expect_asks
from toolbank.run.plan import describe_plan
from toolbank.run.recipe import load_recipe
from toolbank.run.run import run_recipe
from toolbank.system.errors import InterruptedByUserError
from toolbank.training import callbacks as saving
from toolbank.training.trainers import TrainerBase

TRAINING = {"epochs": 2, "batch_size": 4, "learning_rate": 1e-3}
RETRIEVERS = [
    {"type": "tool2vec", "encoder": {}, "training": TRAINING},
    {"type": "refiner", "candidates": 4, "encoder": {}, "training": TRAINING},
]


@pytest.fixture
def recipe(tmp_path):
    path = str(write_recipe(tmp_path, retrievers=RETRIEVERS))
    return lambda *settings: load_recipe(path, settings)


def plan(recipe, out):
    """The lines about trainings: the steps by title."""
    told = describe_plan(recipe, out)
    return told, dict(
        re.findall(r"^  (\S.*?)  +((?:about )?[\d,]+) steps$", told, re.M)
    )


def test_each_training_is_named_with_its_steps(recipe, tmp_path):
    told, trainings = plan(recipe(), tmp_path / "run")
    assert trainings == {
        "tool2vec": "54",
        "tool2vec, held-out part 1 of 2, for refiner": "26",
        "tool2vec, held-out part 2 of 2, for refiner": "26",
        "refiner": "32",
    }
    assert "In all 138 steps." in told
    assert not (tmp_path / "run").exists()


def test_what_was_trained_is_trained_again_only_for_held_out_parts(recipe, tmp_path):
    run_recipe(recipe(), tmp_path / "run", until="retrievers")
    told, trainings = plan(recipe(), tmp_path / "run")
    assert trainings == {}
    assert "Trainings" not in told
    longer = recipe("retrievers.1.training.epochs=300")
    told, trainings = plan(longer, tmp_path / "run")
    assert trainings["refiner"] == "4,800"
    assert "tool2vec" not in trainings
    assert "In all 4,852 steps." in told


@pytest.mark.slow
def test_the_steps_left_after_a_stop_are_at_most_so_many(recipe, tmp_path, monkeypatch):
    def stop(trainer, number):
        if number == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(saving, "_PAUSE_S", 0.0)
    monkeypatch.setattr(saving, "_SHARE", float("inf"))
    out = tmp_path / "run"
    with monkeypatch.context() as stopped:
        stopped.setattr(TrainerBase, "begin_epoch", stop)
        with pytest.raises((KeyboardInterrupt, InterruptedByUserError)):
            run_recipe(recipe(), out, until="retrievers")
    told, _ = plan(recipe(), out)
    assert "In all at most 138 steps" in told
    assert "kept a part of tool2vec, which is not done again." in told
    told, _ = plan(recipe("retrievers.0.training.epochs=3"), out)
    assert "In all " in told
    assert not re.search("at most|kept a part", told)
    told, _ = plan(recipe("seed=1"), out)
    assert not re.search("at most|kept a part", told)
    run_recipe(recipe(), out, until="retrievers")
    told, _ = plan(recipe("retrievers.1.training.epochs=300"), out)
    assert "at most" not in told


def generating(folder, generate):
    path = write_recipe(folder, retrievers=RETRIEVERS)
    recipe = yaml.safe_load(path.read_text())
    del recipe["dataset"]
    recipe |= {"sources": [{"type": "python", "package": "json"}], "generate": generate}
    path.write_text(yaml.safe_dump(recipe))
    return load_recipe(str(path), ())


def test_a_bank_to_be_generated_gives_steps_about(tmp_path):
    rules = {"engine": "rules", "queries": 40, "max_tools": 2, "offered": 4}
    recipe = generating(tmp_path, rules)
    out = tmp_path / "run"
    told, before = plan(recipe, out)
    assert before["refiner"] == "about 16"
    assert re.search(r"In all about \d+ steps\.", told)
    assert before["tool2vec"].startswith("about ")
    run_recipe(recipe, out, until="generate")
    _, after = plan(recipe, out)
    assert after["refiner"] == "16"
    assert after["tool2vec"].isdecimal()


@pytest.mark.parametrize("asked", [{}, {"queries": 4000}])
def test_no_more_queries_are_planned_than_a_file_holds(tmp_path, asked):
    line = {"offered": ["json.dumps", "json.loads"], "at_most": 2}
    line |= {"draft": "Read it.", "query": "Read it.", "tools": ["json.loads"]}
    replies = str(write_lines(tmp_path / "replies.jsonl", [line] * 40))
    recipe = generating(tmp_path, {"engine": "recorded", "replies": replies, **asked})
    told, trainings = plan(recipe, tmp_path / "run")
    assert "Generation: 40 queries" in told
    assert trainings["refiner"] == "about 16"


def test_asks_that_siblings_share_are_planned_as_one_train_query_each(recipe):
    asking = recipe("asks.engine=rules", "asks.per_tool=2").recipe
    siblings = [Tool(name=f"t.{name}.is_it", kind="method") for name in ("Day", "Week")]
    tools = (Tool(name="t.now"), *siblings)
    bank = expect_asks(asking, Bank(tools), to_write=True)
    shared = ("t.Day.is_it", "t.Week.is_it")
    expected = [("t.now",)] * 2 + [shared] * 2
    assert [query.tools for query in bank.train_queries] == expected
