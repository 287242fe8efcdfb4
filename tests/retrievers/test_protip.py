"""ProTIP: loss, subtraction and search worked by hand; every kind of encoder; what it refuses."""

import json

import numpy as np
import pytest
import torch

import toolbank.retrievers.protip.retriever as retriever_module
from tests.tiny_models import KINDS, tiny_encoder
from toolbank.bank import Bank, Query, Tool
from toolbank.encoders.config import EncoderConfig
from toolbank.encoders.sentence import load_encoder
from toolbank.errors import InputError
from toolbank.retrievers import load_retriever
from toolbank.retrievers.protip import progressive
from toolbank.retrievers.protip import train as train_module
from toolbank.retrievers.protip.config import ProtipConfig, ProtipTraining
from toolbank.retrievers.protip.examples import PlanCollator, PlanExamples
from toolbank.retrievers.protip.loss import (
    contrastive_losses,
    plan_loss,
    step_queries,
)
from toolbank.retrievers.protip.mining import mine_negatives
from toolbank.retrievers.protip.plans import Plan, hold_back, read_plans
from toolbank.retrievers.protip.progressive import Steps, search_plans, search_steps
from toolbank.retrievers.protip.retriever import ProtipRetriever
from toolbank.retrievers.protip.stop import choose_least_rest
from toolbank.retrievers.protip.unseen import measure_ranks, merge_unseen
from toolbank.retrievers.text import title_and_summary

# Tools a, b, c, d of the examples worked by hand.
VECTORS = np.array([[3, 0], [0, 4], [1, 1], [-2, 0]], np.float32)


def test_a_step_asks_for_the_request_less_the_tools_before_it():
    queries = torch.tensor([[3.0, 5.0], [1.0, 0.0]])
    # The second plan has one tool; zeros stand after its end.
    tools = torch.tensor([[[3.0, 0.0], [0.0, 4.0]], [[1.0, 1.0], [0.0, 0.0]]])
    steps = step_queries(queries, tools)
    assert steps.tolist() == [[[3, 5], [0, 5]], [[1, 0], [0, -1]]]


def test_the_loss_of_a_pair():
    distances = torch.tensor([2.0, 2.0, 0.5, 3.0])
    positive = torch.tensor([True, False, False, False])
    losses = contrastive_losses(distances, positive, margin=3.0)
    # 2^2 / 2; (3 - 2)^2 / 2; (3 - 0.5)^2 / 2; past the margin nothing.
    assert losses.tolist() == [2.0, 0.5, 3.125, 0.0]


def test_the_loss_of_plans():
    queries = torch.tensor([[3.0, 5.0], [1.0, 0.0]])
    plans = torch.tensor([[0, 1], [2, -1]])
    negatives = torch.zeros((2, 2, 4), dtype=torch.bool)
    negatives[0, :, 2:] = True
    negatives[1, 0, 3] = True
    loss = plan_loss(queries, torch.tensor(VECTORS), plans, negatives, margin=5.0)
    # x_1 = (3, 5): a is 5 away; c sqrt(20), d past the margin.
    first = 12.5 + ((5 - 20**0.5) ** 2 / 2 + 0) / 2
    # x_2 = (0, 5): b is 1 away; c sqrt(17), d sqrt(29), past the margin.
    second = 0.5 + ((5 - 17**0.5) ** 2 / 2 + 0) / 2
    # The other plan's x_1 = (1, 0): c is 1 away, d 3; a and b are no pair of it.
    third = 0.5 + (5 - 3) ** 2 / 2
    assert loss.item() == pytest.approx((first + second + third) / 3, rel=1e-6)


def test_a_tool_that_lies_on_its_step_has_a_gradient_that_is_finite():
    queries = torch.tensor([[3.0, 0.0]], requires_grad=True)
    negatives = torch.tensor([[[False, True, True, True]]])
    loss = plan_loss(
        queries, torch.tensor(VECTORS), torch.tensor([[0]]), negatives, margin=9.0
    )
    loss.backward()
    assert torch.isfinite(queries.grad).all()


def test_search_takes_the_nearest_subtracts_it_and_goes_on():
    query = np.array([[3, 3.9]], np.float32)
    steps = search_steps(query, VECTORS, steps=2, depth=4)
    # From (3, 3.9), b = (0, 4) is sqrt(9.01) away, c sqrt(12.41), a 3.9, d sqrt(40.21).
    assert steps.hits[0, 0].tolist() == [1, 2, 0, 3]
    assert steps.distances[0, 0, 0] == pytest.approx(9.01**0.5, abs=1e-5)
    # Left is (3, -0.1): a is 0.1 away, c sqrt(5.21), d sqrt(25.01); b was taken.
    assert steps.hits[0, 1].tolist() == [0, 2, 3, 1]
    assert steps.distances[0, 1, :3] == pytest.approx([0.1, 5.21**0.5, 25.01**0.5])
    # What is left over the nearest tool's distance.
    assert steps.rests[0] == pytest.approx([(24.21 / 9.01) ** 0.5, 9.01**0.5 / 0.1])


def test_no_tool_is_taken_twice():
    steps = search_steps(np.array([[30, 0]], np.float32), VECTORS, steps=9, depth=1)
    taken = steps.hits[0, :, 0].tolist()
    assert taken[0] == 0
    assert sorted(taken) == [0, 1, 2, 3]


def test_history_counts_as_taken():
    query = np.array([[3, 4]], np.float32)
    after = search_steps(query, VECTORS, steps=1, depth=4, history=[[0]])
    # (3, 4) - a = (0, 4) = b.
    assert after.hits[0, 0].tolist() == [1, 2, 3, 0]
    assert after.distances[0, 0].tolist()[0] == 0
    assert after.distances[0, 0, -1] == np.inf


def test_a_plan_ends_before_the_first_step_with_too_small_a_rest():
    steps = Steps(
        hits=np.zeros((2, 3, 1), np.int64),
        distances=np.zeros((2, 3, 1)),
        rests=np.array([[2.0, 0.5, 2.0], [0.5, 0.4, 0.3]]),
    )
    assert steps.lengths(1.0).tolist() == [1, 1]
    assert steps.lengths(0.45).tolist() == [3, 1]
    assert steps.lengths(1.0, at_least=0).tolist() == [1, 0]


def test_the_end_is_where_plans_are_found_best():
    hits = np.array([[[0], [1], [2]], [[1], [0], [3]]])
    rests = np.array([[9.0, 5.0, 1.0], [9.0, 2.0, 1.5]])
    steps = Steps(hits, np.zeros((2, 3, 1)), rests)
    least = choose_least_rest(steps, [(0, 1), (1,)])
    assert 2 < least <= 5
    assert steps.lengths(least).tolist() == [2, 1]


def test_the_interleaved_hits_begin_with_the_plan():
    query = np.array([[3, 3.9]], np.float32)
    steps = search_steps(query, VECTORS, steps=3, depth=4)
    indices, scores = search_plans(query, VECTORS, steps=3, least_rest=0.0, k=4)
    taken = steps.hits[0, :, 0].tolist()
    assert indices[0, :3].tolist() == taken
    assert sorted(indices[0].tolist()) == [0, 1, 2, 3]
    assert (np.diff(scores[0]) < 0).all()


def test_hard_negatives_are_the_nearest_that_are_not_the_plans():
    plans = [Plan("q", (0, 1)), Plan("r", (2,)), Plan("s", (3,))]
    queries = np.array([[3, 5], [1, 0], [0, 0]], np.float32)
    # The fifth tool is no plan's.
    tools = np.vstack([VECTORS, [[0, 0]]]).astype(np.float32)
    mined = mine_negatives(plans, queries, tools, most=2)
    # x_1 = (3, 5): c, then d; x_2 = (0, 5): c, then d; (1, 0): a, then d; (0, 0): c, then a.
    assert mined == [[[2, 3], [2, 3]], [[0, 3]], [[2, 0]]]


def test_random_negatives_are_never_the_plans_and_new_in_each_epoch():
    plans = [Plan("q", (0, 3)), Plan("r", (5,)), Plan("s", (7, 2, 4))]
    examples = PlanExamples(plans, [[1], [2], [3]], seed=0)
    seen = set()
    for epoch in range(40):
        examples.set_epoch(epoch)
        first = [example["drawn"] for example in examples]
        assert first == [example["drawn"] for example in examples]
        assert [len(drawn) for drawn in first] == [2, 1, 3]
        assert not {0, 3} & set(first[0])
        assert 5 not in first[1]
        seen |= set(first[0])
    # Tools 1 and 6 are no plan's: they would be driven away from all of them.
    assert seen == {2, 4, 5, 7}


def test_a_batch_has_each_tool_once_and_the_others_as_negatives():
    collate = PlanCollator([[10 + i] * (i + 1) for i in range(7)], pad_id=0)
    batch = collate(
        [
            {"query": [1, 2], "plan": (4, 1), "drawn": [6], "mined": ()},
            {"query": [3], "plan": (1,), "drawn": [0], "mined": ()},
        ]
    )
    assert batch["tools"]["input_ids"][:, 0].tolist() == [10, 11, 14, 16]
    assert batch["plans"].tolist() == [[2, 1], [1, -1]]
    assert batch["negatives"][0].tolist() == [[True, False, False, True]] * 2
    assert batch["negatives"][1, 0].tolist() == [True, False, True, True]
    assert batch["queries"]["attention_mask"].tolist() == [[1, 1], [1, 0]]


def test_mined_negatives_are_those_of_their_step_alone():
    collate = PlanCollator([[i] for i in range(7)], pad_id=0)
    batch = collate(
        [{"query": [1], "plan": (4, 1), "drawn": (), "mined": [[5, 6], [2, 6]]}]
    )
    # Tools 1 2 4 5 6.
    assert batch["negatives"][0].tolist() == [
        [False, False, False, True, True],
        [False, True, False, False, True],
    ]


def test_the_log_odds_of_ranks_never_rise():
    hits = np.array([[0, 1, 2], [3, 0, 4], [5, 6, 7]])
    plans = [Plan("q", (0, 2)), Plan("r", (3, 4)), Plan("s", (1,))]
    # Right are 2, 0 and 2 of 3.
    expected = np.log([2.5 / 1.5, 0.5 / 3.5, 0.5 / 3.5])
    np.testing.assert_allclose(measure_ranks(hits, plans), expected)


def test_an_unseen_tool_stands_where_its_description_puts_it():
    hits = np.array([[4, 1, 3], [4, 1, 3]])
    odds = np.array([[0.5, -9.0], [-3.0, 5.0]], np.float32)
    indices, scores = merge_unseen(
        hits, np.array([2.0, -1.0]), np.array([0, 3]), odds, n_tools=5
    )
    # 4 at 2.0, then 0 at 0.5, then 1 at -1; and 3 at 5.0, 4 at 2.0, 1 at -1.
    assert indices.tolist() == [[4, 0, 1], [3, 4, 1]]
    np.testing.assert_allclose(scores, [[2, 0.5, -1], [5, 2, -1]], atol=1e-3)


NAMES = ["rain", "song", "light", "parcel", "mail", "road", "rose", "house"]


@pytest.fixture(scope="module")
def bank():
    tools = tuple(Tool(name=n, kind="function", summary=f"the {n}") for n in NAMES)
    queries = tuple(
        Query(
            id=f"{a}{b}",
            query=f"please {NAMES[a]} then {NAMES[b]}",
            tools=(NAMES[a], NAMES[b]),
            split="validation" if (a + 2 * b) % 5 == 0 else "train",
        )
        for a in range(8)
        for b in range(8)
        if a != b
    )
    return Bank(tools, queries)


def encoder_at(folder, kind="minilm", dropout=0.0):
    path = tiny_encoder(folder, kind, dropout, words=NAMES)
    return EncoderConfig(model=str(path))


def fit(bank, encoder, epochs=2.0, **settings):
    training = ProtipTraining(epochs=epochs, learning_rate=3e-3, batch_size=16)
    config = ProtipConfig(encoder=encoder, training=training, **settings)
    retriever = ProtipRetriever(config)
    retriever.fit(bank)
    return retriever


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_encoder_trains_saves_loads_and_searches(bank, kind, tmp_path):
    retriever = fit(bank, encoder_at(tmp_path / "tiny", kind), negatives="hard")
    texts = [query.query for query in bank.split("validation")]
    retriever.save(tmp_path / "saved")
    loaded = load_retriever(tmp_path / "saved")
    assert loaded.tools == tuple(NAMES)
    assert loaded.least_rest == retriever.least_rest
    np.testing.assert_array_equal(
        retriever.search(texts, 5)[0], loaded.search(texts, 5)[0]
    )
    assert loaded.plan(texts) == retriever.plan(texts)
    card = (tmp_path / "saved/README.md").read_text()
    assert "ProTIP" in card
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again/README.md").read_text() == card
    assert not list((tmp_path / "saved").rglob("*.bin"))


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
    tokens = trained._fitted.tokenizer(texts, return_tensors="pt")
    with torch.no_grad():
        body = trained._fitted[0].auto_model(**tokens).last_hidden_state
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


def test_same_seed_same_weights(bank, tmp_path):
    encoder = encoder_at(tmp_path / "tiny", dropout=0.1)
    one, other = (fit(bank, encoder, epochs=1) for _ in range(2))
    np.testing.assert_array_equal(one.vectors, other.vectors)


def test_a_tool_added_later_is_found(bank, tmp_path, trained):
    trained.save(tmp_path / "saved")
    loaded = load_retriever(tmp_path / "saved")
    loaded.add_tools([Tool(name="water", kind="function", summary="the water")])
    indices, _ = loaded.search(["water: the water"], 1)
    assert loaded.tools[indices[0, 0]] == "water"
    with pytest.raises(InputError, match="there already"):
        loaded.add_tools([Tool(name="rain", kind="function")])


def test_a_tool_without_use_is_found_by_its_description(bank, tmp_path):
    train = tuple(q for q in bank.split("train") if "house" not in q.tools)
    retriever = fit(Bank(bank.tools, train), encoder_at(tmp_path / "tiny"))
    assert retriever.unseen.tolist() == [NAMES.index("house")]
    indices, scores = retriever.search(["house: the house"], 8)
    assert NAMES.index("house") in indices[0, :3]
    assert sorted(indices[0].tolist()) == list(range(8))
    assert (np.diff(scores[0]) <= 0).all()


def test_train_hits_are_of_retrievers_that_have_not_seen_the_query(bank, tmp_path):
    retriever = fit(bank, encoder_at(tmp_path / "tiny"), epochs=1)
    hits, scores = retriever.search_train(bank, 3)
    assert hits.shape == scores.shape == (len(bank.split("train")), 3)


def test_a_bank_whose_order_means_nothing_is_refused(bank):
    unordered = Bank(bank.tools, bank.queries, {"ordered": False})
    with pytest.raises(InputError, match="order of a query's tools means nothing"):
        ProtipRetriever(ProtipConfig()).fit(unordered)


def test_a_bank_without_train_plans_is_refused(bank):
    with pytest.raises(InputError, match="needs train queries with tools"):
        ProtipRetriever(ProtipConfig()).fit(Bank(bank.tools))


def test_a_history_must_be_of_tools_that_are_there(trained):
    with pytest.raises(InputError, match="no tool here is called so"):
        trained.plan(["x"], [["nowhere"]])
    with pytest.raises(InputError, match="2 requests and 1 histories"):
        trained.plan(["x", "y"], [["rain"]])


def test_plans_keep_the_order_and_repeat_no_tool(bank):
    query = Query(
        id="q", query="x", tools=("road", "gone", "mail", "road"), split="train"
    )
    assert read_plans(Bank(bank.tools, (query,)), "train") == [Plan("x", (5, 4))]


def test_blocks_of_requests_are_searched_as_all_at_once(monkeypatch):
    random = np.random.default_rng(0)
    queries = random.normal(size=(7, 3)).astype(np.float32)
    tools = random.normal(size=(5, 3)).astype(np.float32)
    history = [[], [1], [4, 0], [], [2], [], [3]]
    whole = search_steps(queries, tools, steps=3, depth=4, history=history)
    # As many scores as two requests have.
    monkeypatch.setattr("toolbank.retrievers.ranking._BLOCK_SCORES", 60)
    sizes = []
    measure = progressive.measure_distances
    monkeypatch.setattr(
        progressive,
        "measure_distances",
        lambda asked, offered: sizes.append(len(asked)) or measure(asked, offered),
    )
    parts = search_steps(queries, tools, steps=3, depth=4, history=history)
    assert max(sizes) == 2
    for name in ("hits", "distances", "rests"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))
    none = search_steps(queries[:0], tools, steps=3, depth=4)
    assert none.hits.shape == (0, 3, 4)


def test_a_tenth_is_held_back_of_plans_whose_tools_others_use():
    plans = [Plan(f"q{i}", (i % 4, 4)) for i in range(30)]
    plans += [Plan(f"only {i}", (i, 4)) for i in range(5, 15)]
    train, held = hold_back(plans, seed=1)
    assert (len(train), len(held)) == (36, 4)
    assert not set(train) & set(held)
    assert {i for p in plans for i in p.tools} == {i for p in train for i in p.tools}
    assert hold_back(plans, seed=1) == (train, held)
    assert hold_back(plans, seed=2)[1] != held
    assert hold_back(plans[30:], seed=1) == (plans[30:], [])


def test_without_validation_ranks_are_measured_on_plans_not_trained_on(
    bank, trained, monkeypatch
):
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
        "toolbank.retrievers.protip.train.PlanExamples",
        lambda plans, *more: seen.extend(plans) or PlanExamples(plans, *more),
    )
    fit(Bank(bank.tools, train), trained.config.encoder, epochs=1)
    (measured,) = asked
    assert len(measured) == len(train) // 10
    learnt = {plan.query for plan in seen}
    assert not learnt & set(measured)
    assert learnt | set(measured) == {query.query for query in train}


def test_fitted_again_on_another_bank_it_is_as_fitted_once(bank, tmp_path):
    encoder = encoder_at(tmp_path / "tiny")
    once = fit(bank, encoder, epochs=1)
    twice = fit(bank, encoder, epochs=1)
    fewer = Bank(
        bank.tools[:4], tuple(q for q in bank.queries if set(q.tools) <= set(NAMES[:4]))
    )
    twice.fit(fewer)
    twice.fit(bank)
    texts = [query.query for query in bank.queries]
    for one, other in zip(once.search(texts, 8), twice.search(texts, 8), strict=True):
        np.testing.assert_array_equal(one, other)
    assert twice.plan(texts) == once.plan(texts)


def test_an_epoch_is_judged_by_the_stop_that_a_search_would_have(
    bank, tmp_path, monkeypatch
):
    stops = []
    validate = retriever_module.validation_recall

    def spy(search, watched):
        stops.append((search.__self__.vectors.copy(), search.__self__.least_rest))
        return validate(search, watched)

    monkeypatch.setattr(retriever_module, "validation_recall", spy)
    made = fit(bank, encoder_at(tmp_path / "tiny"), epochs=3)
    (stop,) = [least for vectors, least in stops if (vectors == made.vectors).all()]
    assert stop == made.least_rest


def test_training_reads_the_tokens_that_search_reads(bank, tmp_path, monkeypatch):
    folder = tiny_encoder(tmp_path / "tiny", words=NAMES)
    # A tokenizer that knows capitals, of a model that is to be given none.
    tokens = json.loads((folder / "tokenizer.json").read_text())
    tokens["normalizer"]["lowercase"] = False
    (folder / "tokenizer.json").write_text(json.dumps(tokens))
    (folder / "sentence_bert_config.json").write_text(
        json.dumps({"max_seq_length": 128, "do_lower_case": True})
    )
    read = []
    monkeypatch.setattr(
        "toolbank.retrievers.protip.train.PlanExamples",
        lambda plans, ids, *more: read.extend(ids) or PlanExamples(plans, ids, *more),
    )
    loud = tuple(
        query.model_copy(update={"query": query.query.upper()})
        for query in bank.queries
    )
    made = fit(Bank(bank.tools, loud), EncoderConfig(model=str(folder)), epochs=1)
    asked = [query.query for query in loud if query.split == "train"]
    tokens = made._fitted.preprocess(asked)
    assert read == [
        ids[mask.bool()].tolist()
        for ids, mask in zip(tokens["input_ids"], tokens["attention_mask"], strict=True)
    ]
    unknown = made._fitted.tokenizer.unk_token_id
    assert not any(unknown in ids for ids in read)


def test_the_scale_of_the_margin_is_of_no_more_texts_than_are_needed(trained):
    sizes = []

    def embedded(_, texts, size):
        sizes.append(len(texts))
        return np.zeros((len(texts), 2), np.float32)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_module, "embed", embedded)
        train_module._mean_distance(None, ["q"] * 511, ["t"] * 700, 32)
    assert max(sizes) <= 256


def test_the_end_is_no_worse_than_any_other():
    random = np.random.default_rng(0)
    hits = np.array([random.permutation(9)[:4] for _ in range(30)])[:, :, None]
    steps = Steps(hits, np.zeros(hits.shape), random.random((30, 4)))
    plans = [tuple(random.permutation(9)[: random.integers(1, 4)]) for _ in range(30)]

    def mean_f1(least):
        taken = [
            set(row[:length, 0])
            for row, length in zip(hits, steps.lengths(least), strict=True)
        ]
        return np.mean(
            [
                2 * len(found & set(plan)) / (len(found) + len(plan))
                for found, plan in zip(taken, plans, strict=True)
            ]
        )

    best = mean_f1(choose_least_rest(steps, plans))
    choices = np.quantile(steps.rests, np.linspace(0, 1, 100), method="lower")
    assert best == pytest.approx(max(mean_f1(choice) for choice in choices))
