import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.retrievers.small_methods import fit_one
from tests.tiny_models import KINDS, tiny_encoder
from tests.world import make_bank
from toolbank.bank.bank import Bank
from toolbank.bank.records import Query
from toolbank.encoders.sentence import SentenceConfig
from toolbank.retrievers import load_retriever
from toolbank.retrievers.settings import (
    Bm25Config,
    DescriptionsConfig,
    RefinerConfig,
    RefinerTraining,
    Tool2VecConfig,
)
from toolbank.system.errors import InputError

REQUESTS = ["soak the plants", "", "refund order 17", "give me a song " * 200]


@pytest.fixture(scope="module")
def encoders(tmp_path_factory):
    return {
        kind: SentenceConfig(
            model=str(tiny_encoder(tmp_path_factory.mktemp(kind), kind))
        )
        for kind in KINDS
    }


def fit(config, bank, *needed):
    return fit_one(config, bank, *(fit_one(other, bank) for other in needed))


def refiner(encoder, **settings):
    training = RefinerTraining(epochs=2, batch_size=2)
    settings = {"candidates": 4, "training": training} | settings
    return RefinerConfig(encoder=encoder, **settings)


@pytest.fixture(scope="module", params=KINDS)
def fitted(request, encoders, bank):
    encoder = encoders[request.param]
    held_back = Query(
        id="v", query="water the lawn", tools=("garden.water",), split="validation"
    )
    watched = Bank(bank.tools, (*bank.queries, held_back))
    return fit(refiner(encoder), watched, Tool2VecConfig(encoder=encoder))


def test_candidates_come_first_and_the_first_stages_other_hits_follow(fitted):
    first, _ = fitted.built_on["tool2vec"].search(REQUESTS, 6)
    indices, scores = fitted.search(REQUESTS, 100)
    assert indices.shape == scores.shape == (4, 6)
    assert (indices.dtype, scores.dtype) == (np.int64, np.float32)
    candidates = (np.sort(hits[:, :4], axis=1) for hits in (indices, first))
    np.testing.assert_array_equal(*candidates)
    np.testing.assert_array_equal(indices[:, 4:], first[:, 4:])
    assert (np.diff(scores, axis=1) <= 0).all()
    assert (np.diff(scores[:, 3:], axis=1) < 0).all()


def test_before_any_training_it_has_the_first_stages_order(encoders, bank):
    encoder = encoders["minilm"]
    still = RefinerTraining(epochs=1, learning_rate=1e-12)
    made = fit(refiner(encoder, training=still), bank, Tool2VecConfig(encoder=encoder))
    first, _ = made.built_on["tool2vec"].search(REQUESTS, 6)
    np.testing.assert_array_equal(made.search(REQUESTS, 6)[0], first)


def test_first_stage_and_vectors_are_saved_once_where_they_are_one(cases, tmp_path):
    cases["refiner"].fitted.save(tmp_path)
    assert (tmp_path / "stages" / "tool2vec").is_dir()
    assert len(list((tmp_path / "stages").iterdir())) == 1
    card = (tmp_path / "README.md").read_text()
    assert "2409.02141" in card


def test_a_first_stage_that_finds_few_tools_or_none_will_do(encoders, bank, tmp_path):
    encoder = encoders["minilm"]
    odd = Query(id="odd", query="xyzzy", tools=("music.stop",), split="train")
    made = fit(
        refiner(encoder, first_stage="bm25", vectors="descriptions", candidates=3),
        Bank(bank.tools, (odd, *bank.queries)),
        Bm25Config(),
        DescriptionsConfig(encoder=encoder),
    )
    requests = ["plugh", "refund", "start a song, then say where the order is", ""]
    indices, scores = made.search(requests, 6)
    first, _ = made.built_on["bm25"].search(requests, 6)
    assert (indices >= 0).sum(axis=1).tolist() == [0, 1, 3, 0]
    for found, wanted in zip(indices, first, strict=True):
        assert set(found) == set(wanted)
    assert np.array_equal(np.isinf(scores), indices < 0)
    alone = made.search(requests[1:2], 6)
    assert alone[0].tolist() == indices[1:2].tolist()
    assert made.search_train(bank, 6)[0].shape == (len(bank.split("train")), 6)


def test_it_learns_which_tools_go_together(tmp_path):
    encoder = SentenceConfig(model=str(tiny_encoder(tmp_path, dropout=0)))
    bank, gold = paired_tools()
    made = fit(
        refiner(
            encoder,
            first_stage="bm25",
            vectors="descriptions",
            candidates=16,
            training=RefinerTraining(
                epochs=30, batch_size=16, learning_rate=5e-3, precision="fp32"
            ),
        ),
        bank,
        Bm25Config(),
        DescriptionsConfig(encoder=encoder),
    )

    def recall(retriever):
        texts = [query.query for query in bank.split("test")]
        found, _ = retriever.search(texts, 2)
        return (found[:, :, None] == gold[:, None, :]).any(axis=1).mean()

    assert recall(made.built_on["bm25"]) < 0.6
    assert recall(made) > 0.8


def paired_tools():
    """Requests that name one tool of a pair, where both are always used.

    A word that all share makes each tool a hit of BM25.
    """
    named = ("book", "car", "door", "email", "garden", "heat", "jazz", "mail")
    others = ("light", "map", "noise", "paint", "rain", "sort", "track", "water")
    fillers = ("please", "can", "you", "we", "want", "to", "the", "now", "today")
    random = np.random.default_rng(0)
    uses = [
        (
            " ".join([*random.permutation(fillers)[:2], named[i % 8], "thing"]),
            [f"t.{named[i % 8]}", f"t.{others[i % 8]}"],
            "train" if i < 128 else "test",
        )
        for i in range(144)
    ]
    bank = make_bank({f"t.{w}": f"{w} {w} thing" for w in (*named, *others)}, uses)
    return bank, np.array([[i % 8, 8 + i % 8] for i in range(16)])


@pytest.mark.parametrize(
    "damage",
    [
        lambda weights: weights["project.weight"].__setitem__((0, 0), np.nan),
        lambda weights: weights.update(
            {"project.weight": weights["project.weight"][:, :-1].copy()}
        ),
        lambda weights: weights.pop("first_stage.bias"),
    ],
)
def test_weights_that_can_not_be_are_refused(cases, tmp_path, damage):
    cases["refiner"].fitted.save(tmp_path)
    path = tmp_path / "model" / "model.safetensors"
    weights = load_file(path)
    damage(weights)
    save_file(weights, path)
    with pytest.raises(InputError, match=r"model.*toolbank train"):
        load_retriever(tmp_path)
