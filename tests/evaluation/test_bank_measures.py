"""The figures of two banks, by what their requests and attempts are."""

import pytest

from tests.requests.quality.banks import TOOLS, bank
from toolbank.bank.bank import Label
from toolbank.bank.records import AttemptRecord
from toolbank.evaluation.bank_measures import AttemptCost, ComparedBank, compare_banks

PLAIN = [
    ("Find the order of customer {}, please", ["shop.find_order"]),
    ("Weigh parcel {} for the depot", ["shop.weigh"]),
    ("Cancel an order with number {}", ["shop.cancelOrder"]),
]
OUTCOME = [
    ("Where is what Mrs {} bought at ours last week?", ["shop.find_order"]),
    ("Is box {} too heavy for the van?", ["shop.weigh"]),
    ("Mr {} no longer wants his lamp", ["shop.cancelOrder"]),
]


def make(texts, n=30, endings=(), labels=()):
    made = bank(
        *((texts[i % 3][0].format(i), texts[i % 3][1]) for i in range(n)), labels=labels
    )
    units = [
        (
            AttemptCost(
                AttemptRecord(attempt=i, outcome="accepted", requests=("w", "p")), 10
            ),
            query,
        )
        for i, query in enumerate(made.queries)
    ]
    units += [
        (
            AttemptCost(
                AttemptRecord(
                    attempt=n + i, outcome="rejected", reason=reason, requests=("w",)
                ),
                6,
            ),
            None,
        )
        for i, reason in enumerate(endings)
    ]
    return ComparedBank(made, units)


def compare(a, b, *, paired=True):
    return {one.kind.name: one for one in compare_banks(a, b, 0, paired=paired)}


def test_a_bank_is_no_better_than_itself():
    found = compare(make(PLAIN), make(PLAIN))
    assert {one.difference for one in found.values()} == {0}
    assert not any(one.low and (one.low > 0 or one.high < 0) for one in found.values())


@pytest.mark.parametrize("paired", [True, False])
def test_wording_in_the_tools_words_is_found(paired):
    found = compare(make(PLAIN), make(OUTCOME), paired=paired)
    words = found["requests in the tools' words"]
    assert (words.a, words.b) == (1, 0)
    assert words.high < 0
    assert words.p < 0.001
    assert found["requests that name the outcome alone"].low > 0


def test_price_counts_every_attempt():
    endings = ["tool-not-offered"] * 6 + ["too-long"] * 4
    a, b = make(PLAIN, 30, ["near-duplicate"] * 10), make(OUTCOME, 30, endings)
    found = compare(a, b)
    assert found["attempts accepted"].b == 0.75
    assert found["attempts rejected: tool-not-offered"].b == pytest.approx(0.15)
    assert found["attempts rejected: near-duplicate"].b == 0
    assert found["calls per accepted request"].a == pytest.approx(70 / 30)
    assert found["tokens per accepted request"].a == pytest.approx(360 / 30)
    assert "dollars per accepted request" not in found


def test_coverage_is_that_of_equally_many_requests():
    few = bank(*[("How heavy is it?", ["shop.weigh"])] * 12)
    many = bank(*[("How heavy is it?", ["shop.weigh"])] * 60)
    sides = [
        ComparedBank(one, [(None, query) for query in one.queries])
        for one in (few, many)
    ]
    found = compare(*sides, paired=False)
    used = found["tools used at least once"]
    assert (used.a, used.b, used.n) == (1 / len(TOOLS), 1 / len(TOOLS), 12)
    assert "attempts accepted" not in found


def test_labels_are_compared_if_both_are_graded():
    labels = [
        Label(query=f"q{i}", tool=f"shop.{tool}", grade="needed", kind="model")
        for i in range(30)
        for tool in (["find_order", "sum"] if i % 3 == 0 else ["weigh"])
    ]
    graded, other = make(PLAIN, labels=labels), make(PLAIN)
    found = compare(graded, make(OUTCOME, labels=labels))
    right = found["requests whose first labels are right"]
    wrong = found["first labels that are wrong"]
    lacking = found["needed tools that the first labels lack"]
    assert right.a == wrong.a == pytest.approx(1 / 3)
    # Ten lack "sum", ten have "cancelOrder" for "weigh".
    assert lacking.a == pytest.approx(20 / 40)
    assert not any(name.startswith("first labels") for name in compare(graded, other))


def test_requests_of_one_kind_have_nearer_vectors():
    import numpy as np

    def embed(texts):
        angles = [
            0.1 if "order" in text or "parcel" in text else i
            for i, text in enumerate(texts)
        ]
        return np.array([[np.cos(a), np.sin(a)] for a in angles], np.float32)

    found = compare_banks(make(PLAIN), make(OUTCOME), 0, paired=True, embed=embed)
    cosine = next(one for one in found if one.kind.name == "cosine of two requests")
    assert cosine.a == pytest.approx(1)
    assert cosine.high < 0
