import json
import re
import shutil
import weakref
from functools import partial

import pytest
import torch
from transformers import LlamaForCausalLM

from tests.commands.in_process import toolbank
from tests.papers.planner.data import (
    TOOLS,
    make_bank,
    make_rows,
    tiny_llama,
    write_data,
)
from tests.servers.chat import Answer, ChatServer
from toolbank.papers.planner import evaluate
from toolbank.papers.planner.config import PlannerConfig, PlannerSetting
from toolbank.papers.planner.evaluate import RunPlanner, evaluate_setting
from toolbank.papers.planner.language_model import (
    Prediction,
    generate_steps,
    load_planner,
    train_planner,
)
from toolbank.papers.planner.plans import (
    CandidateSampler,
    PlannerPrompts,
    read_plans,
    unroll,
)
from toolbank.papers.planner.stage import PlannerStage
from toolbank.run.folder import RunFolder
from toolbank.run.recipe import load_recipe
from toolbank.training.config import TrainingContext

SETTINGS = """
    - {test: bm25}
    - {name: twin, test: random}
    - {test: bm25, stepwise: true}
    - {name: oracle, train: gold, test: gold, history: false}
    - {name: own, train: bm25, test: bm25}
"""
MODELS = ["random-history", "gold-alone", "bm25-history"]
UNTRAINED = "[{test: bm25}, {name: none, train: none}]"
RECIPE = """\
name: plans
dataset: {type: jsonl, path: data, ordered: true}
baselines: false
retrievers: [{type: bm25}]
planner:
  PLANNER
  candidates: 4
  response: 32
  training: {epochs: 1, batch_size: 8, max_length: 192}
  settings: SETTINGS
"""


def write_plans(folder, count, planner, settings):
    write_data(folder, make_rows(count))
    text = RECIPE.replace("PLANNER", planner).replace("SETTINGS", settings)
    (folder / "plans.yaml").write_text(text)


def make_run(folder, planner, settings=SETTINGS):
    write_plans(folder, 40, planner, settings)
    return run_again(folder)


def plan(folder, *arguments, fails=False):
    return succeed(folder, "planner", *arguments, fails=fails)


def succeed(folder, *arguments, fails=False):
    done = toolbank(*arguments, cwd=folder)
    assert fails or done.returncode == 0, done.stderr
    return done


def refuse(folder, *arguments):
    """What a command says that ends with exit code 2."""
    done = plan(folder, *arguments, fails=True)
    assert done.returncode == 2
    return " ".join(done.stderr.split())


def copy_run(folder, name):
    return shutil.copytree(folder / "run", folder / name)


def run_again(folder, *arguments):
    return succeed(folder, "run", "plans.yaml", "--out", "run", *arguments).stderr


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plans")
    tiny_llama(folder / "llama")
    return folder, make_run(folder, "model: ./llama")


@pytest.fixture
def folder(trained):
    return trained[0]


def test_settings_that_differ_in_test_alone_share_a_model(trained):
    folder, told = trained
    made = sorted(path.name for path in (folder / "run/planner").iterdir())
    assert made == sorted(MODELS)
    assert len(re.findall("trained on ", told)) == 3
    assert not list((folder / "run/checkpoints").rglob("planner/**/*.safetensors"))
    again = plan(folder, "train", "run")
    assert again.stdout.count("there already") == 3
    assert "trained on" not in again.stderr


def test_the_table_is_printed_and_written(folder):
    done = plan(folder, "evaluate", "run")
    found = json.loads((folder / "run/planner.json").read_text())
    names = [row["setting"] for row in found["settings"]]
    assert names == ["bm25 [T+H]", "twin", "bm25, by step [T+H]", "oracle", "own"]
    assert all(name in done.stdout for name in names)
    assert found["plans"] == 10
    for row in found["settings"]:
        assert row["steps"] == sum(s["steps"] for s in row["by_step"].values())
        assert 0 <= row["tool_accuracy"] <= row["intervals"]["tool_accuracy"][1] <= 1
    oracle = found["settings"][3]
    assert oracle["offered"] == 1
    assert oracle["first_candidate"]["tool_accuracy"] > 0
    said = (folder / "run/planner/said-4.jsonl").read_text().splitlines()
    assert len(said) == oracle["steps"]
    assert json.loads(plan(folder, "evaluate", "run", "--json").stdout) == found


def test_one_model_is_in_memory_at_a_time(folder, monkeypatch):
    read = []

    def load(place):
        assert not [name for name, model in read if model() is not None]
        model = load_planner(place)
        read.append((place.name, weakref.ref(model)))
        return model

    monkeypatch.setattr(evaluate, "load_planner", load)
    plan(folder, "evaluate", "run")
    assert [name for name, _ in read] == MODELS


def test_a_trained_planner_is_used(folder):
    steps = json.loads(plan(folder, "use", "run", "find a room", "--json").stdout)
    assert {step["tool"] for step in steps} <= {tool.name for tool in TOOLS}


class Script:
    """Says these steps, one at a time, and remembers what it was shown."""

    def __init__(self, *said):
        self.left = list(said)
        self.shown = []

    def __call__(self, situations):
        self.shown += situations
        return [self.left.pop(0) for _ in situations]


FIRST, SECOND, THIRD = (
    Prediction(f"Call {name} for Rome")
    for name in ("find_room", "book_room", "mail_taxi")
)
LAST = Prediction("Call print_room for Rome", is_last=True)


@pytest.mark.parametrize(
    ("said", "options", "planned", "asked"),
    [
        ([FIRST, LAST, SECOND], (), [FIRST, LAST], 2),
        ([FIRST, SECOND, THIRD], ("--set", "planner.steps=2"), [FIRST, SECOND], 2),
        ([FIRST, SECOND, FIRST, THIRD], (), [FIRST, SECOND], 3),
        ([FIRST, Prediction("Call no_tool"), THIRD], (), [FIRST], 2),
        ([Prediction("", is_last=True)], (), [], 1),
    ],
)
def test_a_plan_ends_with_a_step(folder, monkeypatch, said, options, planned, asked):
    script = Script(*said)
    monkeypatch.setattr(RunPlanner, "speaker", lambda *_: script)
    done = plan(folder, "use", "run", "find a room", "--json", *options)
    assert json.loads(done.stdout) == [
        {"tool": one.text.split()[1], "text": one.text} for one in planned
    ]
    texts = tuple(one.text for one in planned)
    assert [one.history for one in script.shown] == [texts[:n] for n in range(asked)]
    for situation in script.shown:
        assert situation.request == "find a room"
        assert len(situation.tools) == 4
        assert "find_room" in situation.tools


def test_batch_and_padding_change_nothing_that_is_said(folder):
    model = load_planner(folder / "run/planner/random-history")
    texts = ("Call", "Request: find a room", "x " * 40)
    prompts = list(map(model.tokenise, texts))
    assert model.say(prompts, 12) == [model.say([ids], 12)[0] for ids in prompts]


def test_a_planner_is_read_onto_a_gpu_in_half_precision(folder, monkeypatch):
    moved = []

    def move(model, device):
        moved.append(device)
        return model

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    monkeypatch.setattr(LlamaForCausalLM, "to", move)
    model = load_planner(folder / "run/planner/random-history").model
    assert moved == ["cuda"]
    assert model.dtype == torch.bfloat16


def test_what_changed_is_trained_anew_and_not_used_before(folder):
    copy_run(folder, "other")
    more = ("--set", "planner.training.epochs=2")
    told = refuse(folder, "evaluate", "other", *more)
    why = "config.training.epochs is 2.0, was 1.0"
    assert f"has to be trained again: {why}" in told
    assert "toolbank planner train other" in told
    planned = toolbank("plan", "other", *more, cwd=folder).stdout
    assert planned.count(f"to do again: {why}") == 3
    todo = re.findall(r"^  (\S+) +to do", planned, re.MULTILINE)
    assert todo == [f"planner/{name}" for name in MODELS]
    done = plan(folder, "train", "other", *more)
    assert done.stderr.count("trained on ") == 3
    # The run has these settings now.
    assert plan(folder, "train", "other").stdout.count("there already") == 3


def test_a_plan_counts_the_trainings(folder):
    before = toolbank("plan", "plans.yaml", "--out", "new", cwd=folder).stdout
    made = json.loads((folder / "run/planner/gold-alone/made.json").read_text())
    steps, examples = made["training"]["steps"], made["training"]["examples"]
    said = f"each of {steps} steps on {examples} examples"
    assert f"Planners: 3 trainings, {said}" in before
    more = f"planner.settings={UNTRAINED}"
    after = toolbank("plan", "run", "--set", more, cwd=folder).stdout
    assert f"Planners: 1 training, {said}" in after
    assert "Planners" not in toolbank("plan", "run", cwd=folder).stdout


def test_a_search_needs_no_planner(folder):
    stages = copy_run(folder, "searched") / "stages.json"
    noted = json.loads(stages.read_text())
    del noted["planner/gold-alone"]
    stages.write_text(json.dumps(noted))
    done = succeed(folder, "search", "searched", "find a room")
    assert "not finished" not in done.stderr


def test_a_stop_before_the_training_says_what_an_earlier_one_kept(folder, monkeypatch):
    run = copy_run(folder, "stopped")
    shutil.rmtree(run / "planner/random-history")

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(CandidateSampler, "choose_train", stop)
    assert "Nothing is kept" in plan(folder, "train", "stopped", fails=True).stderr
    monkeypatch.chdir(folder)
    recipe = load_recipe(str(run / "recipe.yaml")).recipe
    kept = PlannerStage.of(recipe, RunFolder(run))[0].checkpoints / "checkpoint-3"
    kept.mkdir(parents=True)
    (kept / "model.safetensors").touch()
    told = plan(folder, "train", "stopped", fails=True).stderr
    assert "is kept" not in told
    assert "The same command goes on from there" in " ".join(told.split())


def test_a_retriever_that_is_shown_comes_before_the_training(tmp_path):
    small = "model: {new: {vocabulary: 300, width: 8, layers: 1, heads: 1}}"
    write_plans(tmp_path, 12, small, "[{train: bm25, test: bm25}]")
    missing = "retrievers/bm25 is not done"
    run_again(tmp_path, "--until", "dataset")
    assert missing in refuse(tmp_path, "train", "run")
    run_again(tmp_path, "--until", "retrievers")
    write_data(tmp_path, make_rows(16, seed=1))
    run_again(tmp_path, "--until", "dataset", "--replace")
    assert missing in refuse(tmp_path, "train", "run")
    other = "planner.settings=[{train: gold, test: bm25}]"
    done = plan(tmp_path, "train", "run", "--set", other)
    assert done.stderr.count("trained on ") == 1


def test_several_processes_are_refused_before_anything_is_run(folder, monkeypatch):
    for name, value in (("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "2")):
        monkeypatch.setenv(name, value)
    told = refuse(folder, "train", "run", "--set", "planner.training.epochs=2")
    assert "one process trains it" in told


def test_low_rank_additions_are_merged(folder):
    pytest.importorskip("peft")
    (folder / "lora").mkdir()
    tiny_llama(folder / "lora/llama")
    make_run(
        folder / "lora",
        "model: ./llama\n  lora: {rank: 2}",
        "[{name: one, train: gold, test: bm25}]",
    )
    model = load_planner(folder / "lora/run/planner/gold-history").model
    before = load_planner(folder / "lora/llama").model.state_dict()
    after = model.state_dict()
    assert after.keys() == before.keys()
    changed = {name for name in after if not torch.equal(after[name], before[name])}
    assert any("q_proj" in name for name in changed)
    assert not any("norm" in name for name in changed)


def read_prompt(call):
    tools = re.findall(r"^(\w+): ", call.prompt.partition("Request:")[0], re.MULTILINE)
    done = call.prompt.partition("\nDone:\n")[2].partition("\nThe request")[0]
    return [name for name in tools if name not in done]


def test_an_engine_plans_untrained_and_is_asked_once(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")

    def script(call):
        if "in Lima" in call.prompt:
            return Answer.json({"step": "Call no_such_tool to win", "last": True})
        left = read_prompt(call)
        return Answer.json({"step": f"Call {left[0]} to go on", "last": len(left) < 3})

    with ChatServer(script) as server:
        ask = f"ask: {{model: m, base_url: '{server.url}', replies: ./plans.sqlite}}"
        make_run(tmp_path, ask, "[{name: one, test: gold}, {name: two, test: bm25}]")
        plan(tmp_path, "evaluate", "run")
        one, _ = json.loads((tmp_path / "run/planner.json").read_text())["settings"]
        assert 0 < one["tool_hallucination"] < 1
        assert one["tool_accuracy"] > 0.3
        calls = len(server.calls)
        plan(tmp_path, "evaluate", "run")
        assert len(server.calls) == calls
        used = plan(tmp_path, "use", "run", "find a room, print a table in Oslo")
        assert used.stdout.startswith("1. Call ")
        assert "planner evaluate" in refuse(tmp_path, "train", "run")
        assert "planner/" not in toolbank("plan", "run", cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("planner", "settings", "said"),
    [
        ("model: ./llama", "[{test: tool2vec}]", "names tool2vec"),
        ("lora: {rank: 4}", "[{test: bm25}]", "set `model`"),
        ("model: ./llama", "[{test: gold, stepwise: true}]", "`test` should be a"),
        ("model: ./llama", "[{test: gold}, {test: gold}]", "two are called gold"),
        ("model: ./llama\n  steps: 0", "[{test: gold}]", "planner.steps"),
    ],
)
def test_a_recipe_that_cant_be_is_refused(tmp_path, planner, settings, said):
    write_plans(tmp_path, 4, planner, settings)
    done = toolbank("run", "plans.yaml", "--out", "run", cwd=tmp_path)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("train", "nowhere"), "no such folder"),
        (("use", "run"), "toolbank planner use RUN QUERY"),
        (("evaluate", "run", "text"), "takes no request"),
        (("train", "run", "--setting", "oracle"), "for `planner use`"),
        (("use", "run", "text", "--setting", "oracle"), "--setting oracle"),
        (("train", "run", "--set", "planner.model=./none"), "none"),
        (
            ("evaluate", "run", "--set", f"planner.settings={UNTRAINED}"),
            "is not trained",
        ),
    ],
)
def test_what_is_missing_is_said_with_the_remedy(folder, monkeypatch, arguments, said):
    monkeypatch.delattr(evaluate, "load_planner")
    told = refuse(folder, *arguments)
    assert said in told
    assert "Traceback" not in told


BY_HEART = {"epochs": 60, "learning_rate": 3e-3}


@pytest.mark.slow
def test_a_hundred_plans_can_be_learnt_by_heart(tmp_path):
    bank = make_bank([{**row, "split": "train"} for row in make_rows(100)])
    examples = unroll(read_plans(bank, bank.split("train"))[0])
    setting = PlannerSetting(train="gold", test="gold")
    config = PlannerConfig.model_validate(
        {
            "model": {"new": {"vocabulary": 600, "width": 96, "layers": 3}},
            "response": 48,
            "training": {**BY_HEART, "batch_size": 16, "max_length": 192},
            "settings": [setting],
        }
    )
    candidates, prompts = CandidateSampler(bank, 10, seed=0), PlannerPrompts(bank.tools)
    shown = candidates.show(examples, candidates.choose("gold", examples), history=True)
    context = TrainingContext(checkpoints=tmp_path)
    model, _ = train_planner(examples, shown, prompts, config, context)
    speaker = partial(generate_steps, model, prompts, config)
    found, _ = evaluate_setting(setting, examples, candidates, speaker)
    assert found["exact_match"] > 0.98
    assert found["tool_accuracy"] > 0.99
