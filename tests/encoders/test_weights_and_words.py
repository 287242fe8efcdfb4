import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.retrievers.small_methods import (
    SHORT,
    assert_same_hits,
    configure,
    fit,
    paired_bank,
)
from tests.tiny_models import KINDS, tiny_encoder
from toolbank.encoders import load_encoder
from toolbank.encoders.sentence import SentenceConfig
from toolbank.retrievers import load_retriever
from toolbank.system.errors import InputError
from toolbank.system.files import read_json, write_json

TRAINED = ("tuned-tool2vec", "tuned-descriptions", "mlc", "protip", "refiner")


@pytest.fixture(scope="module")
def bank():
    return paired_bank()


def halve(folder):
    path = folder / "model.safetensors"
    weights = load_file(path)
    save_file({k: v.half() for k, v in weights.items()}, path, {"format": "pt"})
    config = read_json(folder / "config.json")
    write_json(folder / "config.json", {**config, "dtype": "float16"})


@pytest.mark.parametrize("kind", KINDS)
def test_an_encoder_that_knows_no_words_is_refused(tmp_path, kind):
    folder = tiny_encoder(tmp_path / "model", kind)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
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


@pytest.mark.parametrize("label", TRAINED)
def test_a_training_from_half_precision_is_saved_and_read(tmp_path, bank, label):
    model = tiny_encoder(tmp_path / "tiny", "deberta")
    halve(model)
    encoder = SentenceConfig(model=str(model))
    short = SHORT | {"batch_size": 4}
    retriever = fit(label, configure(encoder, **short), bank)
    retriever.save(tmp_path / "saved")
    texts = ["play the music", "water the garden"]
    found = load_retriever(tmp_path / "saved").search(texts, 3)
    assert_same_hits(found, retriever.search(texts, 3), 1e-5)
