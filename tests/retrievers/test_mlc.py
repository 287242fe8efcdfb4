import itertools
import math

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModel

from tests.retrievers.small_methods import assert_same_hits, fit_one, words_of
from tests.tiny_models import KINDS, tiny_encoder
from tests.world import make_bank
from toolbank.bank.bank import Bank
from toolbank.bank.records import Provenance
from toolbank.encoders.sentence import SentenceConfig
from toolbank.retrievers import load_retriever
from toolbank.retrievers.mlc.network import multi_label_loss, stack_vectors
from toolbank.retrievers.relevance import validation_recall
from toolbank.retrievers.settings import MlcConfig, MlcTraining
from toolbank.system.errors import InputError

REQUESTS = ["soak the plants", "", "refund order 17", "¿dónde está?", "a " * 60]


def make_folder(place, kind, pooling, bank):
    """An encoder's folder; with [CLS] one of transformers alone, as BERT's or DeBERTa's."""
    name, words = f"{kind}-{pooling}", words_of(bank)
    folder = tiny_encoder(place / name, kind, dropout=0, words=words)
    if pooling == "cls":
        (folder / "modules.json").unlink()
    return folder


def make_config(folder, **settings):
    training = MlcTraining(
        **{"epochs": 3, "batch_size": 8, "learning_rate": 5e-3, "max_length": 32}
        | settings.pop("training", {})
    )
    encoder = SentenceConfig(model=str(folder))
    return MlcConfig(encoder=encoder, training=training, **settings)


def often(bank, times=30):
    """The bank with each train query many times, so that few epochs are many steps."""
    train = [
        query.model_copy(update={"id": f"{query.id}-{i}"})
        for i in range(times)
        for query in bank.split("train")
    ]
    return Bank(bank.tools, (*train, *bank.split("test")))


@pytest.fixture(scope="module")
def folder(bank, tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("encoder"), "minilm", "mean", bank)


def test_the_loss_is_binary_cross_entropy_by_hand():
    logits = torch.tensor([[2.0, -1.0, 0.5], [0.0, 3.0, -2.0]])
    labels = torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    chance = lambda z: 1 / (1 + math.exp(-z))  # noqa: E731
    first = -math.log(chance(2)) - math.log(1 - chance(-1)) - math.log(chance(0.5))
    second = -math.log(0.5) - math.log(1 - chance(3)) - math.log(chance(-2))
    for weight in (1.0, 0.25):
        found = multi_label_loss(logits, labels, torch.tensor([1.0, weight]))
        assert found.item() == pytest.approx((first + weight * second) / 2, rel=1e-5)


QUICK = [("minilm", "mean"), ("deberta", "cls")]


@pytest.mark.parametrize(
    ("kind", "pooling", "frozen"),
    [
        *((*one, False) for one in QUICK),
        ("minilm", "mean", True),
        *(
            pytest.param(*one, False, marks=pytest.mark.slow)
            for one in itertools.product(KINDS, ("mean", "cls"))
            if one not in QUICK
        ),
    ],
)
def test_every_shape_is_trained_and_saved(bank, tmp_path, kind, pooling, frozen):
    folder = make_folder(tmp_path, kind, pooling, bank)
    config = make_config(folder, training={"epochs": 5}, frozen=frozen)
    retriever = fit_one(config, often(bank))
    right = 0
    for query in bank.split("train"):
        own = set(query.tools) & set(retriever.tools)
        hits = retriever.search([query.query], 6)[0][0]
        # Four queries are too few to say where tools that no query uses belong.
        used = [retriever.tools[i] for i in hits if retriever.labels[i] >= 0]
        right += set(used[: len(own)]) == own
    assert right >= 3
    retriever.save(tmp_path / "saved")
    loaded = load_retriever(tmp_path / "saved")
    assert_same_hits(loaded.search(REQUESTS, 6), retriever.search(REQUESTS, 6))


def test_one_by_cls_is_a_model_that_transformers_reads(bank, tmp_path):
    from transformers import AutoModelForSequenceClassification

    folder = make_folder(tmp_path, "deberta", "cls", bank)
    retriever = fit_one(make_config(folder, training={"epochs": 1}), bank)
    retriever.save(tmp_path / "saved")
    model = AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "saved" / "model", local_files_only=True
    )
    assert model.config.problem_type == "multi_label_classification"
    labels = list(bank.tool_names[1:5])
    assert list(model.config.id2label.values()) == labels
    ids = torch.tensor([[2, 20, 30, 3]])
    with torch.no_grad():
        expected = retriever.classifier(ids, torch.ones_like(ids))
        np.testing.assert_allclose(model.eval()(ids).logits, expected, atol=1e-6)


def test_the_epoch_that_is_best_on_validation_stays(bank, folder):
    validation = [q.model_copy(update={"split": "validation"}) for q in bank.queries]
    with_validation = Bank(bank.tools, (*often(bank).queries, *validation))
    retriever = fit_one(make_config(folder), with_validation)
    assert "1.0000 after epoch 3" in retriever.card


def test_a_query_written_by_rules_counts_for_a_quarter(bank, folder):
    made = Provenance(attempt=0, engine="rules", model="", prompt_hash="", seed=0)
    by_rules = bank.queries[0].model_copy(update={"provenance": made})
    config = make_config(folder, frozen=True, training={"learning_rate": 1e-9})
    seen = fit_one(config, Bank(bank.tools, (by_rules, *bank.queries[1:])))
    water = seen.labels[2]
    bias = seen.classifier.last.bias[water].item()
    # 1.25 of 3.25 queries use it.
    assert bias == pytest.approx(math.log(1.75 / 2.5), abs=1e-4)


def test_without_train_queries_the_descriptions_decide(bank, folder, tmp_path):
    retriever = fit_one(make_config(folder), Bank(bank.tools))
    retriever.save(tmp_path)
    assert not (tmp_path / "model").exists()
    loaded = load_retriever(tmp_path)
    (best,) = loaded.search(["Start a song"], 1)[0][0]
    assert loaded.tools[best] == "music.play"


def test_a_head_has_settings_of_its_own_where_none_are_given():
    own = MlcConfig.model_validate({"frozen": True, "training": {"epochs": 7}})
    assert (own.training.epochs, own.training.learning_rate) == (7, 2e-3)
    assert MlcConfig().training.learning_rate == 5e-5
    assert MlcConfig.model_validate(own.model_dump()) == own


def test_a_classifier_of_other_tools_is_told(bank, folder, tmp_path):
    config = make_config(folder, training={"epochs": 0.1})
    fit_one(config, bank).save(tmp_path / "one")
    fit_one(config, Bank(bank.tools, bank.queries[:1])).save(tmp_path / "two")
    (tmp_path / "two" / "model").rename(tmp_path / "gone")
    (tmp_path / "one" / "model").rename(tmp_path / "two" / "model")
    with pytest.raises(InputError, match=r"model: damaged \(of other tools\)"):
        load_retriever(tmp_path / "two")


@pytest.mark.parametrize(("kind", "pooling"), [("minilm", "mean"), ("deberta", "cls")])
def test_the_last_layer_is_trained_first(bank, tmp_path, kind, pooling, monkeypatch):
    folder = make_folder(tmp_path, kind, pooling, bank)
    still = make_config(folder, training={"epochs": 0.1, "learning_rate": 1e-12})
    made = []
    for rate in (1e-12, 0.1):
        monkeypatch.setattr("toolbank.retrievers.settings._HEAD_LEARNING_RATE", rate)
        made.append(fit_one(still, often(bank)))
    model = made[1].classifier.model
    after = getattr(model, model.base_model_prefix, model).state_dict()
    for name, values in load_file(folder / "model.safetensors").items():
        if "pooler" not in name:
            torch.testing.assert_close(after[name].cpu(), values, atol=1e-7, rtol=0)
    before, trained = (retriever.classifier.last.weight for retriever in made)
    assert (before - trained).abs().max() > 0.01
    # By [CLS] an encoder that is so small and random tells its texts not apart.
    if pooling == "mean":
        losses = [loss(retriever, bank) for retriever in made]
        assert losses[1] < 0.9 * losses[0]


def loss(retriever, bank):
    train = bank.split("train")
    labels = torch.zeros(len(train), int(retriever.labels.max()) + 1)
    for row, query in zip(labels, train, strict=True):
        own = [bank.index[name] for name in query.tools if name in bank.index]
        row[torch.from_numpy(retriever.labels[own])] = 1
    logits = torch.from_numpy(retriever._logits([query.query for query in train]))
    return multi_label_loss(logits, labels, torch.ones(len(train))).item()


def test_a_fit_cut_off_in_the_last_layer_goes_on(bank, folder, tmp_path, monkeypatch):
    left = [None] * 7

    def cut_off(vectors):
        left.pop()
        return stack_vectors(vectors)

    few, config = often(bank, 4), make_config(folder)
    whole = fit_one(config, few)
    with monkeypatch.context() as patch:
        patch.setattr("toolbank.training.callbacks._PAUSE_S", 0.0)
        patch.setattr("toolbank.training.callbacks._SHARE", float("inf"))
        patch.setattr("toolbank.retrievers.mlc.network.stack_vectors", cut_off)
        with pytest.raises(IndexError):
            fit_one(config, few, checkpoints=tmp_path)
    assert list((tmp_path / "last").glob("checkpoint-*"))
    assert not list(tmp_path.glob("checkpoint-*"))
    resumed = fit_one(config, few, checkpoints=tmp_path)
    for name, values in whole.classifier.state_dict().items():
        found = resumed.classifier.state_dict()[name]
        torch.testing.assert_close(found, values, atol=0, rtol=0)


def test_a_language_model_is_refused_as_a_classifier(bank, tmp_path):
    folder = make_folder(tmp_path, "bert", "cls", bank)
    config = AutoConfig.for_model(
        "qwen2",
        vocab_size=400,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
    )
    AutoModel.from_config(config).save_pretrained(folder)
    with pytest.raises(InputError, match=r"of the type 'qwen2'.*frozen: true"):
        fit_one(make_config(folder), bank)


NOUNS = ("lamp", "door", "garden", "kettle", "piano", "car", "boat", "letter")


def make_worded_bank(wording):
    """Each tool is used once; validation queries are worded as `wording` says."""
    uses = [
        (form.format(noun=noun, number=number), [f"{noun}.use"], split)
        for form, split in (("task {number}", "train"), (wording, "validation"))
        for number, noun in enumerate(NOUNS)
    ]
    return make_bank({f"{noun}.use": f"Use the {noun}." for noun in NOUNS}, uses)


def fit_frozen(bank, epochs, **settings):
    config = {"frozen": True, "training": {"epochs": epochs}, **settings}
    return fit_one(MlcConfig.model_validate(config), bank)


def test_a_description_counts_like_so_many_queries():
    bank = make_worded_bank("task {number}")
    twice = bank.queries[0].model_copy(update={"id": "again"})
    unused = [q for q in bank.split("train") if q.tools != ("door.use",)]
    unused_bank = Bank(bank.tools, (*unused, twice))
    shares = fit_frozen(unused_bank, 1, description_weight=4).shares
    np.testing.assert_allclose(shares[:3], [4 / 6, 1, 4 / 5])


@pytest.mark.parametrize(
    ("wording", "epochs"),
    [("the {noun}, please", 0.1), ("task {number}", 60)],
    ids=["what is described", "what is learnt"],
)
def test_the_weight_is_the_best_on_validation_queries(wording, epochs):
    bank = make_worded_bank(wording)
    retriever = fit_frozen(bank, epochs)
    chosen = validation_recall(retriever.search, bank)
    tried = []
    for weight in (0, 1, 2, 4, 8, 16, 32):
        retriever.shares = np.full(len(NOUNS), weight / (weight + 1))
        tried.append(validation_recall(retriever.search, bank))
    assert min(tried) < max(tried) == pytest.approx(chosen, abs=1e-5)
