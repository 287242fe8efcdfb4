"""`toolbank encoder train steps` and `evaluate steps`, on few problems and a tiny encoder."""

import json
import shutil

import pytest

from tests.commands.in_process import do
from tests.tiny_models import tiny_encoder
from tests.world import write_lines
from toolbank.encoders import load_encoder
from toolbank.encoders.sentence import SentenceConfig
from toolbank.papers.steps.perturb import PERTURBATIONS

NAMES = ("bird", "book", "cat", "dinner", "door", "email", "garden", "house")
SMALL = (
    *("--set", "epochs=8", "--set", "learning_rate=3e-3"),
    *("--set", "negatives=3", "--set", "batch_size=6"),
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with problems in data/ and an encoder in tiny/."""
    folder = tmp_path_factory.mktemp("steps")
    tiny_encoder(folder / "tiny", dropout=0)
    (folder / "data").mkdir()
    rows = [
        {
            "question": f"How many {name} are in the room at {hour}?",
            "steps": [f"There is 1 {name}.", f"We buy {hour}.", f"1 + {hour} is it."],
        }
        for name in NAMES
        for hour in (2, 3, 4)
    ]
    write_lines(folder / "data" / "rooms.jsonl", rows)
    return folder


def steps(place, verb, model, out, *more, code=0):
    call = ("encoder", verb, "steps", "--data", "data", "--out", out)
    return do(place, *call, "--model", model, *more, code=code)


def train(place, out, *more, code=0):
    return steps(place, "train", "./tiny", out, *SMALL, *more, code=code)


def evaluate(place, model, *more):
    return json.loads(steps(place, "evaluate", model, "seen", "--json", *more).stdout)


@pytest.fixture(scope="module")
def trained(place):
    return json.loads(train(place, "out", "--json").stdout)


def overall(record):
    return {one["retriever"]: one for one in record["accuracy"] if one["set"] == "all"}


def test_the_record_has_every_kind_before_and_after(place, trained):
    assert trained == json.loads((place / "out" / "result.json").read_text())
    assert trained["problems"] == trained["trained_on"] == 12
    assert sum(trained["negatives"].values()) == 3 * 12
    kinds = [*PERTURBATIONS, "all of rooms", "all"]
    assert [one["set"] for one in trained["accuracy"]] == kinds * 2
    assert trained["does_not_apply"]["shuffle-operations"] == 12
    assert trained["does_not_apply"]["remove"] == 0
    accuracy = overall(trained)
    gain = trained["gain"]
    assert gain["value"] == pytest.approx(
        accuracy["after"]["value"] - accuracy["before"]["value"]
    )
    assert gain["value"] > 0
    assert gain["low"] <= gain["value"] <= gain["high"]
    faithful = trained["faithfulness"]
    for figures in faithful.values():
        assert "shuffle-operations" not in figures
        shuffled = figures["shuffle"]
        assert shuffled["reference"] == pytest.approx(shuffled["perturbed"])
        assert 0 < figures["remove"]["reference"] < 1


def test_what_was_trained_is_an_encoder_like_any_other(place, trained):
    value = overall(evaluate(place, "./out"))["./out"]["value"]
    assert value == pytest.approx(overall(trained)["after"]["value"])
    encoder = load_encoder(SentenceConfig(model=str(place / "out")))
    assert encoder.encode_queries(["a room"]).shape == (1, 32)
    assert not (place / "out" / ".checkpoints").exists()


def test_a_trained_encoder_is_evaluated_on_what_its_own_seed_held_out(place):
    found = train(place, "third", "--seed", 3, "--json")
    after = overall(json.loads(found.stdout))["after"]["value"]
    for given in ((), ("--seed", 3)):
        seen = evaluate(place, "./third", *given)
        assert seen["seed"] == 3
        assert overall(seen)["./third"]["value"] == pytest.approx(after)
    refused = steps(place, "evaluate", "./third", "seen", "--seed", 0, code=2)
    assert "Give --seed 3" in " ".join(refused.stderr.split())


def test_another_record_gives_no_seed_and_few_problems_no_interval(place):
    shutil.copytree(place / "tiny", place / "other")
    record = {"experiment": "instructions", "seed": 5}
    (place / "other" / "result.json").write_text(json.dumps(record))
    found = evaluate(place, "./other", "--seed", 1, "--problems", 5)
    assert (found["seed"], found["problems"]) == (1, 5)
    assert overall(found)["./other"]["low"] is None


def test_the_same_seed_gives_the_same_weights(place, trained):
    found = train(place, "twin")
    weights = [place / name / "model.safetensors" for name in ("out", "twin")]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    assert "after (95 % interval)" in " ".join(found.stdout.split())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--set", "epoch=1"), "epoch"),
        (("--set", "epochs"), "write --set key=value"),
        (("--set", "epochs=none"), "epochs"),
        (("--set", "patience=2"), "patience: goes by validation"),
    ],
)
def test_a_wrong_setting_is_told(place, given, said):
    found = train(place, "wrong", *given, code=2)
    assert said in found.stderr
    assert not (place / "wrong").exists()


def test_a_folder_of_something_else_stays_as_it_is(place):
    shutil.copytree(place / "data", place / "mine")
    found = train(place, "mine", code=2)
    assert "rooms.jsonl" in found.stderr
    assert [path.name for path in (place / "mine").iterdir()] == ["rooms.jsonl"]
