import numpy as np
import pytest
import torch

import toolbank.retrievers.protip.retriever as retriever_module
from tests.retrievers.small_methods import NAMES, fit_one, name_query, named_bank
from tests.tiny_models import KINDS, tiny_encoder
from toolbank.bank.bank import Bank
from toolbank.bank.records import Query, Tool
from toolbank.encoders import load_encoder
from toolbank.encoders.sentence import SentenceConfig
from toolbank.retrievers import load_retriever
from toolbank.retrievers.base import title_and_summary
from toolbank.retrievers.protip.plans import ToolPlan, read_plans
from toolbank.retrievers.protip.retriever import ProtipRetriever
from toolbank.retrievers.protip.training import PlanExamples
from toolbank.retrievers.settings import ProtipConfig, ProtipTraining
from toolbank.system.errors import InputError


@pytest.fixture(scope="module")
def bank():
    return named_bank(
        name_query(
            "please {} then {}", ("train" if (a + 2 * b) % 5 else "validation"), a, b
        )
        for a in range(8)
        for b in range(8)
        if a != b
    )


def encoder_at(folder, kind="minilm", dropout=0.0):
    path = tiny_encoder(folder, kind, dropout, words=NAMES)
    return SentenceConfig(model=str(path))


def fit(bank, encoder, epochs=2.0, **settings):
    training = ProtipTraining(epochs=epochs, learning_rate=3e-3, batch_size=16)
    config = ProtipConfig(encoder=encoder, training=training, **settings)
    return fit_one(config, bank)


@pytest.fixture(scope="module")
def trained(bank, tmp_path_factory):
    encoder = encoder_at(tmp_path_factory.mktemp("tiny"))
    return fit(Bank(bank.tools, bank.split("train")), encoder, epochs=10)


def test_training_brings_a_plans_tools_to_its_steps(bank, trained):
    untrained = load_encoder(trained.config.encoder)
    train = bank.split("train")
    asked = trained._embed_queries([query.query for query in train])
    near, far = [], []
    for vector, query in zip(asked, train, strict=True):
        first, second = (trained.vectors[NAMES.index(name)] for name in query.tools)
        for step, own in ((vector, first), (vector - first, second)):
            distances = np.linalg.norm(trained.vectors - step, axis=1)
            near.append(np.linalg.norm(own - step))
            far.append(distances.mean())
    assert np.mean(near) < 0.8 * np.mean(far)
    # Vectors have lengths of their own: nothing normalises them.
    assert untrained.dimension == trained.vectors.shape[1]
    assert np.ptp(np.linalg.norm(trained.vectors, axis=1)) > 0.01


def test_search_and_training_measure_the_same_vectors(trained):
    texts = [title_and_summary(tool) for tool in [Tool(name="rain", kind="function")]]
    tokens = trained.encoder.tokenizer(texts, return_tensors="pt")
    with torch.no_grad():
        body = trained.encoder[0].auto_model(**tokens).last_hidden_state
    np.testing.assert_allclose(trained._embed(texts)[0], body[0].mean(0), atol=1e-5)


def test_plans_have_no_tool_twice_nor_one_that_was_called(bank, trained):
    texts = [query.query for query in bank.queries]
    for plan in trained.plan(texts):
        assert 1 <= len(plan) == len(set(plan)) <= 6
    histories = [query.tools[:1] for query in bank.queries]
    for plan, (called,) in zip(trained.plan(texts, histories), histories, strict=True):
        assert called not in plan


def test_the_next_step_is_that_of_the_plan(bank, trained):
    text = bank.queries[3].query
    (first,) = trained.search_next([text], [[]], 1)[0][0]
    assert trained.tools[first] == trained.plan([text])[0][0]
    hits, scores = trained.search_next([text], [[trained.tools[first]]], 8)
    assert hits[0, -1] == first
    assert scores[0, -1] == -np.inf
    assert (np.diff(scores[0]) <= 0).all()


def test_ranks_are_measured_on_plans_not_trained_on(bank, trained, monkeypatch):
    train = bank.split("train")
    asked = []
    search = ProtipRetriever._search
    monkeypatch.setattr(
        ProtipRetriever,
        "_search",
        lambda self, queries, k: (
            asked.append(list(queries)) or search(self, queries, k)
        ),
    )
    seen = []
    monkeypatch.setattr(
        "toolbank.retrievers.protip.training.PlanExamples",
        lambda plans, *more: seen.extend(plans) or PlanExamples(plans, *more),
    )
    fit(Bank(bank.tools, train), trained.config.encoder, epochs=1)
    (measured,) = asked
    assert len(measured) == len(train) // 10
    learnt = {plan.query for plan in seen}
    assert not learnt & set(measured)
    assert learnt | set(measured) == {query.query for query in train}


def test_an_epoch_is_judged_with_a_stop_of_its_own(bank, tmp_path, monkeypatch):
    stops = []
    validate = retriever_module.validation_recall

    def spy(search, watched):
        stops.append((search.__self__.vectors.copy(), search.__self__.stop_threshold))
        return validate(search, watched)

    monkeypatch.setattr(retriever_module, "validation_recall", spy)
    made = fit(bank, encoder_at(tmp_path / "tiny"), epochs=3)
    (stop,) = [least for vectors, least in stops if (vectors == made.vectors).all()]
    assert stop == made.stop_threshold


def test_plans_keep_the_order_and_repeat_no_tool(bank):
    query = Query(
        id="q", query="x", tools=("road", "gone", "mail", "road"), split="train"
    )
    assert read_plans(Bank(bank.tools), (query,)) == [ToolPlan("x", (5, 4))]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_encoder_plans_the_same_once_loaded(bank, kind, tmp_path):
    retriever = fit(bank, encoder_at(tmp_path / "tiny", kind), negatives="hard")
    texts = [query.query for query in bank.split("validation")]
    retriever.save(tmp_path / "saved")
    loaded = load_retriever(tmp_path / "saved")
    assert loaded.plan(texts) == retriever.plan(texts)
    assert "ProTIP" in loaded.card


@pytest.mark.parametrize(
    ("queries", "histories", "named"),
    [(["x"], [["nowhere"]], "nowhere"), (["x", "y"], [["rain"]], "1 histories")],
)
def test_a_history_must_fit_tools_and_requests(trained, queries, histories, named):
    with pytest.raises(InputError, match=named):
        trained.plan(queries, histories)
