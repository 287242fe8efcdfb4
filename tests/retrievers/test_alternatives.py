import numpy as np
import pytest
import torch

from toolbank.bank.bank import Bank, Label
from toolbank.bank.records import Query, Tool
from toolbank.encoders.finetune_data import draw_negatives, make_texts, mine_negatives
from toolbank.encoders.ranking_loss import SharedTools
from toolbank.encoders.sentence import SentenceConfig
from toolbank.retrievers.mlc.network import Collator, make_rows, multi_label_loss
from toolbank.retrievers.protip.plans import read_plans
from toolbank.retrievers.protip.training import PlanCollator
from toolbank.retrievers.protip.training import mine_negatives as mine_for_plans
from toolbank.retrievers.refiner.network import search_rows, train_rows
from toolbank.retrievers.relevance import train_relevance

A, B, C, D = range(4)
NAMES = "abcd"
# What the first request needs is not a, as it was written with, but b, and c would do as well.
BANK = Bank(
    tuple(Tool(name=name) for name in NAMES),
    (
        Query(id="q0", query="first", tools=("a",), split="train"),
        Query(id="q1", query="second", tools=("c",), split="train"),
        Query(id="q2", query="third", tools=("d",), split="train"),
        Query(id="q3", query="fourth", tools=("a",), split="train"),
        Query(id="q4", query="fifth", tools=("a",), split="test"),
    ),
    labels=(
        Label(query="q0", tool="b", grade="needed"),
        Label.alternative("q0", "c", "b", "as good"),
        Label(query="q3", grade="aside", reason="two readings"),
        Label(query="q4", tool="d", grade="needed"),
    ),
)
LEARNT = BANK.with_labels_applied()
RELEVANCE = train_relevance(LEARNT)


def test_train_requests_need_what_was_verified_and_the_test_stays_as_written():
    assert [(q.id, q.tools) for q in LEARNT.split("train")] == [
        ("q0", ("b",)),
        ("q1", ("c",)),
        ("q2", ("d",)),
    ]
    assert [q.tools for q in LEARNT.split("test")] == [("a",)]
    assert RELEVANCE.tools.tolist() == [[B], [C], [D]]
    assert RELEVANCE.spared.tolist() == [[C], [-1], [-1]]
    relevance = train_relevance(Bank(BANK.tools, BANK.queries))
    assert relevance.tools.tolist() == [[A], [C], [D], [A]]
    assert relevance.spared.shape == (4, 0)


@pytest.fixture
def texts():
    return make_texts(
        SentenceConfig(), RELEVANCE.queries, RELEVANCE.tools, NAMES, RELEVANCE.spared
    )


def test_fine_tuning_draws_and_mines_none_as_a_negative(texts):
    first, n = 0, texts.n_queries
    pairs = np.array([[first, n + B]] * 50)
    drawn = draw_negatives(texts, pairs, seed=0)
    assert set(drawn.tolist()) == {n + A, n + D}
    vectors = np.eye(len(texts.texts), dtype=np.float32)
    mined = mine_negatives(texts, pairs[:1], vectors, count=3)
    assert set(mined[0].tolist()) <= {n + A, n + D, n + B}


def test_fine_tuning_leaves_it_out_of_the_batch_on_either_side(texts):
    n = texts.n_queries
    rows = np.array([[0, n + B], [1, n + C], [2, n + D]])
    excluded = SharedTools(rows, texts.related).excluded(torch.arange(3), slice(None))
    # The description of c is none of the first request's, which is about c, too.
    assert excluded.tolist() == [
        [False, True, False],
        [False, False, False],
        [False, False, False],
    ]


def test_neither_a_classifier_nor_the_refiner_learns_of_it():
    rows = make_rows(["x"] * 3, RELEVANCE.tools, RELEVANCE.spared, RELEVANCE.weights)
    collate = Collator(lambda _: {}, n_labels=4)
    batch = collate(rows)
    assert batch["labels"].tolist()[0] == [0, 1, -1, 0]
    logits = torch.zeros(3, 4, requires_grad=True)
    multi_label_loss(logits, batch["labels"], batch["weights"]).backward()
    assert logits.grad[0, C] == 0
    assert (logits.grad[0, [A, B, D]] != 0).all()
    hits = (np.array([[A, B, C, D]] * 3), np.zeros((3, 4), np.float32))
    vectors = np.eye(4, dtype=np.float32)
    rows = train_rows(
        search_rows([[1]] * 3, hits, vectors),
        RELEVANCE,
        np.zeros((3, 1, 4), np.float32),
    )
    assert rows[0]["labels"].tolist() == [0, 1, -1, 0]
    assert rows[1]["labels"].tolist() == [0, 0, 1, 0]


def test_no_plan_is_driven_away_from_it():
    plans = read_plans(LEARNT, LEARNT.split("train"))
    mined = mine_for_plans(
        plans, np.zeros((3, 2), np.float32), np.eye(4, 2, dtype=np.float32), most=3
    )
    assert set(mined[0][0]) == {D}
    assert set(mined[1][0]) == {B, D}
    examples = [
        {"query": [1], "plan": p, "drawn": [B, C, D], "mined": ()} for p in plans
    ]
    negatives = PlanCollator([[n] for n in range(4)], pad_id=0)(examples)["negatives"]
    # The batch has b, c and d, in this order.
    assert negatives[0, 0].tolist() == [False, False, True]
    assert negatives[1, 0].tolist() == [True, False, True]
