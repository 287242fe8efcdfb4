import os
import re
import signal
import subprocess
import time

import pytest

from tests.training.classifier import difference
from tests.training.small_run import (
    command,
    environment,
    read_metrics,
    read_weights,
    write_recipe,
)

PATIENCE_S = 300

pytestmark = pytest.mark.slow


def start(*arguments, processes=1, module="toolbank"):
    return subprocess.Popen(
        command(*arguments, processes=processes, module=module),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def start_hasty(*arguments, processes=1):
    return start(*arguments, processes=processes, module="tests.training.hasty")


def finish(process):
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


def run(*arguments, processes=1):
    code, out, err = finish(start("run", *arguments, processes=processes))
    assert code == 0, err
    return out, err


def wait_for_step(folder, process, step, within="*"):
    """Wait until a checkpoint of this step or of a later one is begun.

    `within` is where checkpoints are looked for, below those of the run.
    """
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and process.poll() is None:
        for path in folder.glob(f"checkpoints/*/{within}/checkpoint-*"):
            if int(path.name.rpartition("-")[2]) >= step:
                return
        time.sleep(0.005)
    _, out, err = finish(process)
    pytest.fail(f"no checkpoint of step {step} in {within}: {out}{err}")


def kill(process):
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


TRAINING = {"epochs": 15, "batch_size": 8, "learning_rate": 1e-3}
TOOL2VEC = {"type": "tool2vec", "encoder": {}, "training": {**TRAINING, "epochs": 10}}
REFINING = {"type": "refiner", "candidates": 8, "encoder": {}, "training": TRAINING}
REFINER = [TOOL2VEC, REFINING]
MLC = [{"type": "mlc", "encoder": {}, "training": {**TRAINING, "epochs": 20}}]
PROTIP = [{"type": "protip", "encoder": {}, "training": TRAINING}]
HARD = [{**PROTIP[0], "negatives": "hard"}]
IN_THE_FOLDS = [("*/first/fold-0/encoder", 8), ("*/first/fold-1/encoder", 8)]


@pytest.mark.parametrize(
    ("retrievers", "moments"),
    [
        (MLC, [("*", 1), ("*", 20), ("*", 60), ("*", 120)]),
        (REFINER, [*IN_THE_FOLDS, ("*/refiner", 1), ("*/refiner", 48)]),
        (PROTIP, [("*", 1), ("*", 24), ("*", 80)]),
        (HARD, [("*", 3), ("*", 21), ("*", 77)]),
    ],
    ids=["mlc", "refiner", "protip", "hard-negatives"],
)
def test_killed_methods_end_with_the_same_weights(tmp_path, retrievers, moments):
    """The refiner's first stage is cross-fitted, and killed there in either fold too.

    Dropout is on, so this holds the state of the random generators too. At the same number of
    threads it is the same to the last bit; the tolerance is for libraries that add up in another
    order.
    """
    recipe = write_recipe(tmp_path, dropout=0.1, retrievers=retrievers)
    label = retrievers[-1]["type"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run(recipe, "--out", whole, "--until", "evaluate")
    run(recipe, "--out", killed, "--until", "dataset")
    for within, step in moments:
        process = start_hasty("train", killed)
        wait_for_step(killed, process, step, within)
        kill(process)
        assert not (killed / "models" / label).exists()
        assert len(list(killed.glob(f"checkpoints/{label}/*"))) <= 1
    _, err = run(killed, "--until", "evaluate")
    assert re.search(rf"{label}: goes on from step \d+ of \d+\n", err)
    weights = [read_weights(folder, label) for folder in (whole, killed)]
    assert difference(*weights) < 1e-6
    assert read_metrics(whole) == read_metrics(killed)
    assert not list(killed.glob("checkpoints/*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_checkpoints_and_says_how_to_go_on(tmp_path, number):
    recipe = write_recipe(tmp_path, epochs=200, batch_size=8)
    out = tmp_path / "run"
    run(recipe, "--out", out, "--until", "dataset")
    process = start_hasty("train", out)
    wait_for_step(out, process, 20)
    os.killpg(process.pid, number)
    code, _, err = finish(process)
    assert code == 1
    (step,) = re.findall(r"retrievers/mlc\. Step ([\d,]+) of 1,600 of mlc is kept", err)
    assert "Traceback" not in err
    assert list(out.glob(f"checkpoints/mlc/*/checkpoint-{step.replace(',', '')}"))
    _, err = run(out, "--until", "retrievers")
    assert f"mlc: goes on from step {step} of 1,600" in err


TRIPLETS = {
    "type": "tool2vec",
    "encoder": {},
    "training": {"loss": "triplet", "pairs": ["query-description"], "epochs": 3},
}
ON_FROZEN_VECTORS = {**REFINING, "training": {"epochs": 3}}


@pytest.mark.parametrize(
    "retrievers",
    [
        [{**MLC[0], "training": {"epochs": 4}}],
        [{"type": "tool2vec", "encoder": {}}, ON_FROZEN_VECTORS],
        [TRIPLETS],
    ],
    ids=["mlc", "refiner", "triplets"],
)
def test_two_processes_train_as_one(tmp_path, retrievers):
    """Two batches of 8 make the step that one of 16 makes.

    Without dropout, of which each process draws its own; the loss is a mean over examples. The sums
    are of another order, so the weights are equal within 1e-5, in 32 bits, and the metrics equal.
    Not with `mnrl`: its negatives are those of a batch, and each process has its own.
    """
    *others, last = retrievers
    runs = []
    for processes, batch_size in ((1, 16), (2, 8)):
        training = {
            **last["training"],
            "batch_size": batch_size,
            "learning_rate": 1e-3,
            "precision": "fp32",
        }
        recipe = write_recipe(
            tmp_path / str(processes),
            retrievers=[*others, {**last, "training": training}],
        )
        runs.append(recipe.parent / "run")
        _, err = run(recipe, "--out", runs[-1], processes=processes)
        assert err.count(f"retrievers/{last['type']}") == 1
        assert "Warning" not in err
    weights = [read_weights(folder, last["type"]) for folder in runs]
    assert difference(*weights) < 1e-5
    assert read_metrics(runs[0]) == read_metrics(runs[1])


def test_two_processes_that_are_killed_go_on_to_the_same_weights(tmp_path):
    recipe = write_recipe(tmp_path, dropout=0.1, epochs=12, batch_size=8)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run(recipe, "--out", whole, "--until", "retrievers", processes=2)
    run(recipe, "--out", killed, "--until", "dataset")
    process = start_hasty("train", killed, processes=2)
    wait_for_step(killed, process, 16)
    kill(process)
    run(killed, "--until", "retrievers", processes=2)
    assert difference(read_weights(whole), read_weights(killed)) < 1e-6


def test_if_the_first_of_two_processes_fails_both_end(tmp_path):
    recipe = write_recipe(tmp_path, epochs=1, precision="fp16")
    code, _, err = finish(start("run", recipe, "--out", tmp_path / "run", processes=2))
    assert code != 0
    assert err.count("fp16 needs a GPU") == 1


def test_two_processes_end_where_nothing_is_to_be_fitted(tmp_path):
    recipe = write_recipe(tmp_path, retrievers=[{"type": "bm25"}])
    out = tmp_path / "run"
    run(recipe, "--out", out)
    told, _ = run(recipe, "--out", out, processes=2)
    assert told.count("Everything was done already") == 1
