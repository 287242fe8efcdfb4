"""Runs of one recipe with several values and seeds: what they share, and what they come to."""

import csv
import json
import re
from statistics import mean, stdev

import pytest
import yaml

from tests.commands.in_process import do
from tests.servers.batch import BatchServer, answer_file
from tests.servers.chat import ChatServer
from tests.world import good, write_recipe
from toolbank.bank.bank import Bank
from toolbank.llm.engines.batch import hosted
from toolbank.run.recipe import load_recipe
from toolbank.run.stages.evaluate import EvaluateStage
from toolbank.run.sweep import read_sweep
from toolbank.system.errors import InputError
from toolbank.system.files import read_json

BATCH = {"engine": "batch", "model": "m", "base_url": "https://api.example.com/v1"}
NEAREST = {"type": "nearest", "by": "bm25", "name": "near"}


@pytest.fixture
def write(tmp_path):
    """Write a recipe whose calls all go to one engine, with this `sweep`."""

    def write(sweep, queries=12, retrievers=("bm25", NEAREST), **engine):
        path = tmp_path / "mine.yaml"
        write_recipe(tmp_path, queries=queries, **engine)
        content = yaml.safe_load(path.read_text())
        content |= {
            "judge": {**engine, "pairs": 2},
            "split": {"test": 0.4},
            "retrievers": list(retrievers),
            "sweep": sweep,
        }
        path.write_text(yaml.safe_dump(content))
        return path

    return write


def contents(server):
    return [json.dumps(call.body) for call in server.calls]


GRID = {"seed": [3, 5], "split.train_share": [0.5, 1]}
NAMES = {f"train_share-{share}-seed{seed}" for share in (0.5, 1) for seed in (3, 5)}


@pytest.fixture
def swept(write, tmp_path):
    with ChatServer(good) as server:
        engine = {"engine": "openai", "model": "m", "base_url": server.url}
        write(GRID, **engine)
        done = do(tmp_path, "sweep", "mine.yaml")
        asked = contents(server)
        again = do(tmp_path, "sweep", "mine.yaml")
        assert contents(server) == asked
    return done, again, asked


def test_combinations_are_ordinary_runs_whose_calls_are_made_once(swept, tmp_path):
    done, again, asked = swept
    out = tmp_path / "runs" / "mine-sweep"
    assert {path.name for path in out.iterdir() if path.is_dir()} == NAMES
    assert len(asked) == len(set(asked)) < 40
    assert again.stdout == done.stdout
    banks = {}
    for name in NAMES:
        folder = out / name
        recipe = load_recipe(str(folder)).recipe
        assert name == f"train_share-{recipe.split.train_share:g}-seed{recipe.seed}"
        assert recipe.bank_seed == 0 and not recipe.sweep
        bank = Bank.load(folder / "bank")
        banks[name] = {query.id: query.query for query in bank.queries}
        assert len(banks[name]) == 12
        for command in ("show", "evaluate", "report"):
            do(tmp_path, command, folder)
    assert len({json.dumps(texts) for texts in banks.values()}) == 1
    # The tools are read once, and what no value changes is fitted once.
    assert len(re.findall(r"^sources +as in ", done.stderr, re.M)) == 3


def test_a_smaller_share_trains_on_some_of_the_same_requests_and_tests_on_all(
    swept, tmp_path
):
    out = tmp_path / "runs" / "mine-sweep"
    for seed in (3, 5):
        half, whole = (
            Bank.load(out / f"train_share-{share}-seed{seed}" / "bank")
            for share in (0.5, 1)
        )
        ids = [{q.id for q in bank.split("train")} for bank in (half, whole)]
        assert ids[0] < ids[1] and len(ids[0]) == round(len(ids[1]) / 2)
        assert half.split("test") == whole.split("test")
        left = half.info["train_share"]["queries_left_out"]
        assert left == len(ids[1] - ids[0])


def test_the_table_has_mean_and_deviation_of_the_runs_and_every_pair(swept, tmp_path):
    done, _, _ = swept
    out = tmp_path / "runs" / "mine-sweep"
    found = read_json(out / "sweep.json")
    assert (found["seeds"], len(found["runs"])) == ([3, 5], 4)
    values = {}
    for one in found["runs"]:
        for row in read_json(out / one["folder"] / "metrics.json"):
            key = (
                one["setting"],
                row["retriever"],
                row["set"],
                row["metric"],
                row["k"],
            )
            values.setdefault(key, []).append(row["value"])
    assert {row["set"] for row in found["figures"]} == {"test"}
    for row in found["figures"]:
        key = (row["setting"], row["retriever"], row["set"], row["metric"], row["k"])
        assert row["mean"] == pytest.approx(mean(values[key]))
        assert row["sd"] == pytest.approx(stdev(values[key]))
    pairs = {
        ((row["setting"], row["retriever"]), (row["against_setting"], row["against"]))
        for row in found["tests"]
    }
    half, whole = "train_share=0.5", "train_share=1"
    assert pairs == {
        ((half, "near"), (half, "bm25")),
        ((whole, "near"), (whole, "bm25")),
        ((whole, "bm25"), (half, "bm25")),
        ((whole, "near"), (half, "near")),
    }
    with (out / "figures.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["mean"]) for row in rows] == [r["mean"] for r in found["figures"]]
    for text in (done.stdout, (out / "tables.md").read_text()):
        assert "2 seeds (3, 5)" in " ".join(text.split())
        assert "learning curve" in text
    assert (out / "tables.tex").read_text().count(r"\begin{tabular}") == 3


def test_tables_of_other_values_are_moved_aside(write, tmp_path):
    write({"seed": [0]}, engine="rules")
    out = tmp_path / "runs" / "mine-sweep"
    do(tmp_path, "sweep", "mine.yaml")
    first = (out / "sweep.json").read_bytes()
    done = do(tmp_path, "sweep", "mine.yaml", "--over", "seed=0,5")
    assert "replaced/1" in done.stderr
    assert (out / "replaced/1/sweep.json").read_bytes() == first
    assert (out / "replaced/1/tables.tex").is_file()
    assert read_json(out / "sweep.json")["seeds"] == [0, 5]
    do(tmp_path, "sweep", "mine.yaml", "--over", "seed=0,5")
    assert len(list((out / "replaced").iterdir())) == 1


def test_a_value_that_shapes_one_retriever_leaves_the_others_as_they_are(
    write, tmp_path
):
    write({"retrievers.near.neighbours": [1, 4]}, engine="rules")
    done = do(tmp_path, "sweep", "mine.yaml")
    out = tmp_path / "runs" / "mine-sweep"
    assert "retrievers/bm25          as in neighbours-1-seed0" in done.stderr
    assert "retrievers/near          as in" not in done.stderr
    trees = [
        sorted((out / f"neighbours-{n}-seed0/models/bm25").iterdir()) for n in (1, 4)
    ]
    first, second = ([path.read_bytes() for path in tree] for tree in trees)
    assert first == second
    assert "requests only, since there is one seed" in " ".join(done.stdout.split())


def test_replies_that_two_banks_have_in_common_are_asked_for_once(write, tmp_path):
    with ChatServer(good) as server:
        engine = {"engine": "openai", "model": "m", "base_url": server.url}
        write({"generate.queries": [8, 12]}, **engine)
        do(tmp_path, "sweep", "mine.yaml")
        # The judge draws other pairs of another bank.
        asked = [text for text in contents(server) if "winner" not in text]
    assert len(asked) == len(set(asked))
    banks = [
        Bank.load(tmp_path / f"runs/mine-sweep/queries-{n}-seed0/bank") for n in (8, 12)
    ]
    assert [len(bank.queries) for bank in banks] == [8, 12]
    # Each run has the journal of its own bank.
    shown = do(tmp_path, "show", "runs/mine-sweep/queries-12-seed0", "0")
    assert "# Draft" in shown.stdout or "Draft" in shown.stdout


def test_what_a_run_of_the_recipe_has_paid_for_is_not_asked_for_again(write, tmp_path):
    with ChatServer(good) as server:
        engine = {"engine": "openai", "model": "m", "base_url": server.url}
        write({"seed": [0, 1]}, **engine)
        do(tmp_path, "run", "mine.yaml")
        asked = contents(server)
        done = do(tmp_path, "sweep", "mine.yaml")
        assert contents(server) == asked
    assert re.search(r"^sources +as in mine$", done.stderr, re.M)


def test_a_stopped_sweep_goes_on_without_a_call(write, tmp_path, monkeypatch):
    with ChatServer(good) as server:
        engine = {"engine": "openai", "model": "m", "base_url": server.url}
        write(GRID, **engine)

        def stop(stage):
            if "seed5" in str(stage.folder.path):
                raise KeyboardInterrupt
            return work(stage)

        work = EvaluateStage.work
        with monkeypatch.context() as patch:
            patch.setattr(EvaluateStage, "work", stop)
            stopped = do(tmp_path, "sweep", "mine.yaml", code=1)
        asked = contents(server)
        assert "train_share-0.5-seed5" in stopped.stderr
        assert not (tmp_path / "runs/mine-sweep/sweep.json").exists()
        do(tmp_path, "sweep", "mine.yaml")
        assert contents(server) == asked
    assert (tmp_path / "runs/mine-sweep/sweep.json").is_file()


@pytest.mark.slow
def test_batches_of_all_runs_go_out_in_one_round_and_none_has_a_request_twice(
    write, tmp_path
):
    write({"seed": [0, 1], "generate.temperature": [0.5, 0.9]}, **BATCH)
    rounds = 0
    while (
        done := do(tmp_path, "sweep", "mine.yaml", code=3 if rounds < 3 else 0)
    ) and (done.returncode == 3):
        rounds += 1
        files = list((tmp_path / "runs/mine-sweep").glob("*/batch/round-*.jsonl"))
        new = [p for p in files if not p.with_name(f"out-{p.name}").exists()]
        # The seeds of a setting wait for the same file.
        assert {path.parts[-3] for path in new} == {
            "temperature-0.5-seed0",
            # All wait for the same verdicts.
            *(["temperature-0.9-seed0"] if rounds < 3 else []),
        }
        waiting = [part for part in done.stdout.split("\n\nruns/") if "round-" in part]
        assert len(waiting) == 4
        for path in new:
            named = str(path.relative_to(tmp_path))
            assert sum(named in part for part in waiting) == (2 if rounds < 3 else 4)
        for path in new:
            output = path.with_name(f"out-{path.name}")
            output.write_text(answer_file(path.read_text(), good))
    assert rounds == 3
    lines = [line for p in files for line in p.read_text().splitlines()]
    ids = [json.loads(line)["custom_id"] for line in lines]
    assert len(ids) == len(set(ids))


@pytest.mark.slow
def test_hosted_batches_of_all_runs_are_submitted_before_any_is_awaited(
    write, tmp_path, monkeypatch
):
    monkeypatch.setattr(hosted, "_FIRST_WAIT", 0.01)
    open_then = []

    def note(batch):
        batch.polls = 3
        others = [b for b in server.batches.values() if b.status != "completed"]
        open_then.append(len(others) - (batch in others))

    with BatchServer(good, on_create=note) as server:
        engine = {**BATCH, "base_url": server.url, "options": {"submit": True}}
        write({"generate.temperature": [0.5, 0.9]}, **engine)
        do(tmp_path, "sweep", "mine.yaml", TOOLBANK_API_KEY="k")
    assert open_then[:2] == [0, 1]


def test_a_plan_counts_what_runs_share_once(write, tmp_path):
    write({"seed": [0, 1], "generate.temperature": [0.5, 0.9]}, **BATCH)
    plan = do(tmp_path, "sweep", "mine.yaml", "--plan").stdout
    assert "4 runs" in plan
    for value in (0.5, 0.9):
        shared = f"For temperature-{value}-seed0, and once for 1 more:"
        assert plan.count(shared) == 2, plan  # generate, judge
    assert plan.count("Generation: 12 queries") == 2
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("sweep", "arguments", "said"),
    [
        ({}, [], "no `sweep`"),
        ({"seed": []}, [], "sweep.seed"),
        ({"seed": [1, 1]}, [], "twice"),
        ({"sed": [1]}, [], "sed"),
        ({"generate.queries": ["x"]}, [], "queries"),
        ({"retrievers.none.k": [5]}, [], "none"),
        ({"name": ["a", "b"]}, [], "sweep.name"),
        ({"retrievers": [["bm25"], ["nearest"]]}, [], "name"),
        ({"seed": [0, "x"]}, [], "seed"),
        ({"seed": [0, 1]}, ["--set", "seed=4"], "the same"),
        ({"domain": ["a b", "a-b"]}, [], "folder"),
        ({"domain": ["a" * 99]}, [], "too long"),
        ({"seed": 3}, [], "sweep.seed"),
        ({}, ["--over", "seed"], "--over seed"),
        ({}, ["--over", "seed=[1"], "--over seed"),
        ({}, ["--over", "seed=0,x"], "--over seed"),
        ({}, ["--over", "seed=0,x"], "the combination seed=x."),
    ],
)
def test_a_sweep_that_cannot_be_run_is_refused_with_the_place(
    write, tmp_path, sweep, arguments, said
):
    write(sweep, engine="rules")
    done = do(tmp_path, "sweep", "mine.yaml", *arguments, code=2)
    assert said in done.stderr
    assert not (tmp_path / "runs").exists()


def test_values_may_have_names_and_typed_ones_replace_those_of_the_file(
    write, tmp_path
):
    path = write(
        {"retrievers": {"one": ["bm25"], "two": ["bm25", NEAREST]}, "seed": [0, 1]},
        engine="rules",
    )
    sweep = read_sweep(str(path), tmp_path / "out", over=["seed=7"])
    assert [run.folder.path.name for run in sweep.runs] == [
        "retrievers-one-seed7",
        "retrievers-two-seed7",
    ]
    labels = [[c.label for c in run.recipe.recipe.retrievers] for run in sweep.runs]
    assert labels == [["bm25"], ["bm25", "near"]]


def test_a_file_cannot_say_where_secrets_go_by_its_sweep(write, tmp_path):
    urls = ["https://a.example.com/v1", "https://b.example.com/v1"]
    engine = {"engine": "openai", "model": "m", "base_url": urls[0]}
    path = write({"generate.base_url": {"a": urls[0], "b": urls[1]}}, **engine)
    by_file = read_sweep(str(path), tmp_path / "out")
    assert [run.recipe.typed for run in by_file.runs] == [(), ()]
    typed = read_sweep(
        str(path), tmp_path / "out", over=[f"generate.base_url={','.join(urls)}"]
    )
    assert all(run.recipe.typed for run in typed.runs)


def test_paths_in_a_sweep_start_at_the_recipe(write, tmp_path, monkeypatch):
    (tmp_path / "else").mkdir()
    monkeypatch.chdir(tmp_path / "else")
    path = write({"prompts": ["p1", "p2"]}, engine="rules")
    runs = read_sweep(str(path), None).runs
    assert [run.recipe.recipe.prompts for run in runs] == [
        tmp_path / "p1",
        tmp_path / "p2",
    ]


def test_a_run_is_no_sweep_and_says_so_of_the_recipes_list(write, tmp_path):
    write({"seed": [0, 1]}, engine="rules")
    done = do(tmp_path, "run", "mine.yaml", "--until", "generate")
    assert "toolbank sweep mine.yaml" in done.stderr
    with pytest.raises(InputError, match="this is a run"):
        read_sweep(str(tmp_path / "mine.yaml"), tmp_path / "runs" / "mine")
