"""A training and an evaluation by their commands, on a tiny model with random weights."""

import json
from itertools import product

import pytest

from tests.commands.in_process import toolbank
from tests.tiny_models import tiny_encoder
from toolbank.encoders import load_encoder
from toolbank.encoders.sentence.config import SentenceConfig

pytest.importorskip("textblob")

VERBS = ("write", "find", "describe", "list")
NOUNS = ("story", "city", "book")
ABOUT = ("of a garden", "for a dinner", "about rain", "of the house", "for my music")


@pytest.fixture
def data(tmp_path):
    """Five instructions of each of twelve tasks, to train on and to test on; and the tiny model."""
    tiny_encoder(tmp_path / "tiny", words=[*VERBS, *NOUNS])
    folder = tmp_path / "ieb"
    folder.mkdir()

    def write(name, rows):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    texts = {
        f"{verb}|{noun}": [f"{verb} a {noun} {about}".capitalize() for about in ABOUT]
        for verb, noun in product(VERBS, NOUNS)
    }
    write(
        "eft_train_unsup.jsonl",
        [{"instruction": text} for each in texts.values() for text in each],
    )
    write(
        "eft_test.jsonl",
        [
            {"instruction": f"{text} again", "label": label}
            for label, each in texts.items()
            for text in each
        ],
    )
    story, city = texts["write|story"], texts["find|city"]
    pairs = [(story[0], story[1], 1), (city[0], city[2], 1), (story[3], city[3], 0)]
    names = ("instruction1", "instruction2", "label")
    write(
        "intention_similarity_test.jsonl",
        [dict(zip(names, pair, strict=True)) for pair in pairs],
    )
    return folder


def encoder(*arguments, data):
    shared = ("instructions", "--data", data, "--json")
    kind, *rest = arguments
    done = toolbank("encoder", kind, *shared, *rest, cwd=data.parent)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("options", "rows"),
    [([], 55), (["--no-hard-negatives"], 55), (["--unsupervised"], 55)],
)
def test_a_trained_encoder_is_one_that_a_recipe_reads(data, options, rows):
    found = encoder(
        *("train", "--model", "./tiny", "--positives", "1", "--prompt", "pie"),
        *("--out", "tuned", *options),
        data=data,
    )
    assert found["rows"] == found["instructions"] == rows
    assert found["tasks"] == 11
    read = load_encoder(SentenceConfig(model=str(data.parent / "tuned")))
    assert read.encode_queries(["write a story"]).shape == (1, 32)
    assert not (data.parent / "tuned" / "checkpoints").exists()


def test_training_tells_tasks_apart_that_random_weights_do_not(data):
    encoder(
        *("train", "--model", "./tiny", "--epochs", "20", "--learning-rate", "0.003"),
        *("--out", "tuned"),
        data=data,
    )
    found = encoder(
        *("evaluate", "--model", "./tiny", "--model", "./tuned", "--prompt", "plain"),
        *("--out", "found"),
        data=data,
    )
    before, after = found["rows"]
    assert after["ari"] > before["ari"] + 0.3
    assert json.loads((data.parent / "found" / "result.json").read_text()) == found


def test_what_is_wrong_is_told_before_anything_is_trained(data):
    def refusal(*arguments):
        done = toolbank(
            "encoder", *arguments, "--data", data, "--out", "tuned", cwd=data.parent
        )
        assert done.returncode == 2
        return " ".join(done.stderr.split())

    assert "there are plain, semantic, pie" in refusal(
        "train", "instructions", "--prompt", "none"
    )
    (data / "eft_test.jsonl").write_text('{"instruction": "Sing."}\n')
    said = refusal("evaluate", "instructions", "--model", "./tiny")
    assert 'no "label"' in said
    assert not (data.parent / "tuned").exists()


def test_a_stopped_training_goes_on_with_its_own_settings_only(data):
    out = data.parent / "tuned"
    (out / "checkpoints").mkdir(parents=True)
    (out / "settings.json").write_text('{"model": "another"}')
    done = toolbank(
        *("encoder", "train", "instructions", "--model", "./tiny"),
        *("--data", data, "--out", out),
        cwd=data.parent,
    )
    assert done.returncode == 2
    assert "other settings was stopped there" in " ".join(done.stderr.split())
