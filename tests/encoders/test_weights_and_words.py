"""What a model's folder needs: words that it knows, and weights of any precision."""

import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.tiny_models import KINDS, tiny_encoder
from toolbank.bank.bank import Bank
from toolbank.bank.records import Query, Tool
from toolbank.encoders import load_encoder
from toolbank.encoders.sentence import SentenceConfig
from toolbank.retrievers import create_retriever, load_retriever
from toolbank.retrievers.base import FitContext
from toolbank.retrievers.settings import (
    DescriptionsConfig,
    MlcConfig,
    ProtipConfig,
    RefinerConfig,
    Tool2VecConfig,
)
from toolbank.system.errors import InputError
from toolbank.system.files import read_json, write_json

SETTINGS = {"training": {"epochs": 1, "batch_size": 4}}
TRAINED = {
    "tool2vec": Tool2VecConfig,
    "descriptions": DescriptionsConfig,
    "mlc": MlcConfig,
    "protip": ProtipConfig,
    "refiner": RefinerConfig,
}


@pytest.fixture(scope="module")
def ordered_bank():
    names = ("mail.send", "music.play", "garden.water", "car.park")
    tools = tuple(
        Tool(name=name, kind="function", summary=f"{name.replace('.', ' ')}.")
        for name in names
    )
    queries = tuple(
        Query(
            id=str(i),
            query=f"please {name.split('.')[1]} the {name.split('.')[0]} {i}",
            tools=(name,),
            split="validation" if i > 7 else "train",
        )
        for i, name in enumerate(names * 3)
    )
    return Bank(tools, queries, {"ordered": True})


def fit(kind, model, bank):
    encoder = {"model": str(model)}
    first = create_retriever(Tool2VecConfig.model_validate({"encoder": encoder}))
    needed = {}
    if kind == "refiner":
        first.fit(bank)
        needed = {"tool2vec": first}
    config = TRAINED[kind].model_validate({**SETTINGS, "encoder": encoder})
    retriever = create_retriever(config)
    retriever.fit(bank, FitContext(fitted=needed))
    return retriever


def take_words(folder):
    for name in ("tokenizer.json", "vocab.txt", "tokenizer_config.json"):
        (folder / name).unlink(missing_ok=True)


def halve(folder):
    path = folder / "model.safetensors"
    weights = load_file(path)
    save_file({k: v.half() for k, v in weights.items()}, path, {"format": "pt"})
    config = read_json(folder / "config.json")
    write_json(folder / "config.json", {**config, "dtype": "float16"})


@pytest.mark.parametrize("kind", KINDS)
def test_an_encoder_that_knows_no_words_is_refused(tmp_path, kind):
    folder = tiny_encoder(tmp_path / "model", kind)
    take_words(folder)
    with pytest.raises(InputError, match="model: it has no tokenizer"):
        load_encoder(SentenceConfig(model=str(folder)))


@pytest.mark.parametrize("kind", KINDS)
def test_weights_kept_in_half_precision_are_read_whole(tmp_path, kind):
    folder = tiny_encoder(tmp_path / "model", kind)
    halved = shutil.copytree(folder, tmp_path / "halved")
    halve(halved)
    encoder = load_encoder(SentenceConfig(model=str(halved)))
    assert {p.dtype for p in encoder._model.parameters()} == {torch.float32}
    exact = load_encoder(SentenceConfig(model=str(folder)))
    texts = ["send mail to the house", "play music"]
    np.testing.assert_allclose(
        encoder.encode_queries(texts), exact.encode_queries(texts), atol=0.01
    )


@pytest.mark.parametrize("kind", TRAINED)
def test_a_training_from_half_precision_is_saved_and_read(tmp_path, ordered_bank, kind):
    model = tiny_encoder(tmp_path / "tiny", "deberta")
    halve(model)
    retriever = fit(kind, model, ordered_bank)
    found, scores = retriever.search(["play the music", "water the garden"], 3)
    retriever.save(tmp_path / "saved")
    again, same = load_retriever(tmp_path / "saved").search(
        ["play the music", "water the garden"], 3
    )
    np.testing.assert_array_equal(again, found)
    np.testing.assert_allclose(same, scores, atol=1e-5)
