import json
import signal
from itertools import product

import pytest

from tests.commands.in_process import toolbank
from tests.tiny_models import tiny_encoder
from tests.world import write_lines
from toolbank.encoders import load_encoder
from toolbank.encoders.ranking_loss import MaskedRankingLoss
from toolbank.encoders.sentence import SentenceConfig
from toolbank.papers.experiment import keeping_checkpoints

pytest.importorskip("textblob")

VERBS = ("write", "find", "describe", "list")
NOUNS = ("story", "city", "book")
ABOUT = ("of a garden", "for a dinner", "about rain", "of the house", "for my music")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Five instructions of each of twelve tasks, to train on and to test on; a tiny model beside."""
    folder = tmp_path_factory.mktemp("instructions") / "ieb"
    tiny_encoder(folder.parent / "tiny", words=[*VERBS, *NOUNS])
    folder.mkdir()
    texts = {
        f"{verb}|{noun}": [f"{verb} a {noun} {about}".capitalize() for about in ABOUT]
        for verb, noun in product(VERBS, NOUNS)
    }
    write_lines(
        folder / "eft_train_unsup.jsonl",
        [{"instruction": text} for each in texts.values() for text in each],
    )
    write_lines(
        folder / "eft_test.jsonl",
        [
            {"instruction": f"{text} again", "label": label}
            for label, each in texts.items()
            for text in each
        ],
    )
    story, city = texts["write|story"], texts["find|city"]
    pairs = [(story[0], story[1], 1), (city[0], city[2], 1), (story[3], city[3], 0)]
    names = ("instruction1", "instruction2", "label")
    write_lines(
        folder / "intention_similarity_test.jsonl",
        [dict(zip(names, pair, strict=True)) for pair in pairs],
    )
    return folder


def encoder(kind, *arguments, data):
    shared = ("instructions", "--data", data, "--json")
    return toolbank("encoder", kind, *shared, *arguments, cwd=data.parent)


def train(data, out, *options):
    fast = ("--epochs", "20", "--learning-rate", "0.003")
    return encoder(
        "train", "--model", "./tiny", "--out", out, *fast, *options, data=data
    )


@pytest.fixture(scope="module")
def trained(data):
    done = train(data, "tuned")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def weights(data, out):
    return (data.parent / out / "model.safetensors").read_bytes()


def test_a_trained_encoder_is_one_that_a_recipe_reads(data, trained):
    assert trained["rows"] == trained["instructions"] == 55
    assert trained["tasks"] == 11
    read = load_encoder(SentenceConfig(model=str(data.parent / "tuned")))
    assert read.encode_queries(["write a story"]).shape == (1, 32)
    assert not (data.parent / "tuned" / "checkpoints").exists()


def test_training_tells_tasks_apart_that_random_weights_do_not(data, trained):
    done = encoder(
        *("evaluate", "--model", "./tiny", "--model", "./tuned", "--prompt", "plain"),
        *("--out", "found"),
        data=data,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    before, after = found["rows"]
    assert after["ari"] > before["ari"] + 0.3
    assert json.loads((data.parent / "found" / "result.json").read_text()) == found


@pytest.mark.parametrize("option", ["--no-hard-negatives", "--unsupervised"])
def test_other_trainings_learn_something_else(data, trained, option):
    done = train(data, option[2:], option)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == 55
    assert weights(data, option[2:]) != weights(data, "tuned")


def test_a_stopped_training_goes_on_to_the_same_weights(data, trained, monkeypatch):
    forward, steps = MaskedRankingLoss.forward, []

    def count(self, *given):
        steps.append(1)
        if len(steps) == 8:
            signal.raise_signal(signal.SIGINT)
        return forward(self, *given)

    monkeypatch.setattr(MaskedRankingLoss, "forward", count)
    stopped = train(data, "stopped")
    assert stopped.returncode == 1
    assert "Step 8 of 20" in stopped.stderr
    assert train(data, "stopped").returncode == 0
    assert len(steps) == 20
    assert weights(data, "stopped") == weights(data, "tuned")


def test_a_training_with_other_data_or_settings_starts_anew(tmp_path):
    parts = ({"seed": 0}, "hub a", ["write"])
    others = (({"seed": 1}, *parts[1:]), (*parts[:2], ["read"]), ({}, "hub b", []))
    folders = set()
    for each in (parts, *others):
        with keeping_checkpoints(tmp_path, *each) as folder:
            folders.add(folder)
    assert len(folders) == 4
    with pytest.raises(KeyError), keeping_checkpoints(tmp_path, *parts) as folder:
        assert folder in folders
        folder.mkdir(parents=True)
        raise KeyError
    assert folder.is_dir()
    with keeping_checkpoints(tmp_path, *others[0]):
        pass
    assert not list(tmp_path.iterdir())


def test_what_is_wrong_is_told_before_anything_is_trained(data):
    def refusal(kind, *arguments, data=data):
        done = encoder(kind, *arguments, "--out", "none", data=data)
        assert done.returncode == 2
        return " ".join(done.stderr.split())

    assert "there are plain, semantic, pie" in refusal("train", "--prompt", "none")
    broken = data.parent / "broken"
    broken.mkdir()
    (broken / "eft_test.jsonl").write_text('{"instruction": "Sing."}\n')
    assert "eft_train_unsup.jsonl" in refusal("train", data=broken)
    assert 'no "label"' in refusal("evaluate", "--model", "./tiny", data=broken)
    assert not (data.parent / "none").exists()
