from itertools import count

import numpy as np
import pytest

from tests.retrievers.small_methods import assert_same_hits, fit_one, paired_bank
from tests.tiny_models import KINDS, tiny_encoder
from toolbank.bank.bank import Bank
from toolbank.bank.records import Tool
from toolbank.encoders import load_encoder
from toolbank.retrievers import load_retriever
from toolbank.retrievers.base import full_text
from toolbank.retrievers.relevance import train_relevance
from toolbank.retrievers.settings import DescriptionsConfig, Tool2VecConfig

TRAINING = {"epochs": 2, "batch_size": 4, "learning_rate": 2e-3, "warmup": 0}
E5 = {"query_prefix": "query: ", "document_prefix": "passage: "}
REQUESTS = ["water the lawn", "play jazz at dinner"]


@pytest.fixture(scope="module")
def bank():
    return paired_bank()


def config_of(method, folder, kind, **training):
    encoder = {"model": str(folder)} | (E5 if kind == "e5" else {})
    return method(encoder=encoder, training=TRAINING | training)


@pytest.mark.parametrize("kind", KINDS)
def test_it_trains_saves_loads_and_finds_the_same(bank, tmp_path, monkeypatch, kind):
    # Of four tools the best five are always right: no epoch would be better.
    values = count()
    validation = "toolbank.retrievers.dense.validation_recall"
    monkeypatch.setattr(validation, lambda *_: next(values))
    folder = tiny_encoder(tmp_path / "model", kind)
    retriever = fit_one(config_of(Tool2VecConfig, folder, kind), bank, seed=1)
    retriever.save(tmp_path / "saved")
    loaded = load_retriever(tmp_path / "saved")
    assert_same_hits(loaded.search(REQUESTS, 4), retriever.search(REQUESTS, 4), 1e-6)
    frozen = load_encoder(retriever.config.encoder).encode_queries(REQUESTS)
    tuned = loaded.tuned.encode_queries(REQUESTS)
    assert np.abs(frozen - tuned).max() > 1e-3
    assert list((tmp_path / "saved" / "encoder").glob("*.safetensors"))
    assert "recall@5" in loaded.card and "Tool2Vec" in loaded.card


@pytest.mark.parametrize(
    ("method", "training"),
    [
        (Tool2VecConfig, {"loss": "triplet", "pairs": ["query-query"]}),
        (Tool2VecConfig, {"hard_negatives": 1, "mini_batch": 3}),
        (DescriptionsConfig, {}),
        (DescriptionsConfig, {"loss": "triplet", "hard_negatives": 1}),
    ],
)
def test_every_loss_gives_the_same_by_a_seed(bank, tmp_path, method, training):
    folder = tiny_encoder(tmp_path / "model", "minilm")
    found = []
    for _ in range(2):
        retriever = fit_one(config_of(method, folder, "", **training), bank, seed=3)
        found.append(retriever.vectors)
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)


def test_training_draws_queries_to_their_tools(bank, tmp_path):
    folder = tiny_encoder(tmp_path, "minilm", dropout=0)
    unvalidated = Bank(bank.tools, bank.split("train"))
    own = (train_relevance(bank).tools[:, :, None] == np.arange(8)).any(axis=1)
    gaps = []
    for training in (None, TRAINING | {"epochs": 15}):
        config = DescriptionsConfig(encoder={"model": str(folder)}, training=training)
        retriever = fit_one(config, unvalidated)
        cosines = retriever.embed_train(bank) @ retriever.vectors.T
        gaps.append(cosines[own].mean() - cosines[~own].mean())
    assert gaps[1] > gaps[0] + 0.3


def test_full_text_has_the_parameters_too():
    tool = Tool(
        name="mail.send",
        kind="function",
        summary="Send a mail.",
        description="It is sent at once.",
        parameters={
            "type": "object",
            "properties": {"to": {"description": "Whom."}, "urgent": {}},
        },
    )
    assert full_text(tool) == (
        "mail.send: Send a mail.\nIt is sent at once.\nto: Whom.\nurgent"
    )
    bare = Tool(name="x", kind="function", description="Only this.")
    assert full_text(bare) == "x: Only this."


def test_the_texts_of_the_configuration_are_embedded(bank, tmp_path):
    folder = tiny_encoder(tmp_path, "e5")
    tool = bank.tools[0].model_copy(update={"description": "water for the dry lawn"})
    vectors = []
    for text in ("summary", "full"):
        config = DescriptionsConfig(encoder={"model": str(folder), **E5}, text=text)
        retriever = fit_one(config, Bank((tool,)))
        vectors.append(retriever.vectors[0])
    as_query = {"query_prefix": "passage: "}
    plain = load_encoder(config.encoder.model_copy(update=as_query))
    expected = plain.encode_queries([full_text(tool)])[0]
    np.testing.assert_allclose(vectors[1], expected, atol=1e-6)
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-3
