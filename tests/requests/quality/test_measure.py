import json
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from tests.requests.quality.banks import bank
from toolbank.bank.bank import Label
from toolbank.requests.quality.measure import (
    add_dispersion,
    measure_dispersion,
    measure_quality,
)

THINGS = [
    "ships",
    "boats",
    "kites",
    "cars",
    "bikes",
    "trains",
    "tents",
    "lamps",
    "ropes",
    "maps",
    "cups",
    "hats",
]


def shop(count=60):
    rows = [
        (
            f"How many {THINGS[n % 12]} did shop {n} sell on day {n % 7}?",
            ["shop.sum", f"shop.{('weigh', 'undo', 'find_order')[n % 3]}"],
        )
        for n in range(count)
    ]
    return bank(*rows, asks=[("shop.sum", "terse", "total")])


def corners(texts):
    """A vector each: that of the thing, and a little of the text's own."""
    vectors = np.zeros((len(texts), 32))
    for row, text in enumerate(texts):
        vectors[row, THINGS.index(text.split()[2])] = 1
        vectors[row] += np.random.default_rng(len(text)).normal(0, 0.01, 32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float32)


def measure(of, seed=0):
    return add_dispersion(measure_quality(of, seed), of, corners, "corners", seed)


def test_the_same_bank_in_another_order_has_the_same_figures():
    of = shop()
    queries, asks = list(of.queries), list(of.asks)
    Random(0).shuffle(queries)
    other = replace(of, tools=of.tools[::-1], queries=tuple(queries), asks=tuple(asks))
    assert measure(of).as_json() == measure(other).as_json()


def test_it_is_json():
    found = json.loads(json.dumps(measure(shop()).as_json(), allow_nan=False))
    assert (found["requests"], found["asks"], found["tools"]) == (60, 1, 4)
    assert found["coverage"]["used"]["20"] == 1
    assert len(found["dispersion"]["topics"]) == 12


def test_a_bank_of_nothing_has_no_figures():
    found = measure_quality(bank(tools=()), seed=0).as_json()
    assert {key for key, value in found.items() if value} == set()
    some = measure(shop(23))
    assert some.dispersion is None


def test_topics_are_named_by_what_sets_them_apart():
    found = measure(shop()).dispersion
    assert found.n == 60
    assert found.effective == pytest.approx(12)
    # Four of the 59 others are of the same thing.
    assert found.cosine == pytest.approx(4 / 59, abs=0.01)
    assert found.nearest > 0.99
    names = {topic.name.split(", ")[0] for topic in found.topics}
    assert names == set(THINGS)
    for topic in found.topics:
        assert topic.name.split(", ")[0] in topic.example
        assert (topic.count, topic.share) == (5, pytest.approx(1 / 12))


def test_one_large_topic_counts_as_few():
    texts = ["all about boats", *(f"all {n} about" for n in range(23))]
    vectors = np.eye(32, dtype=np.float32)[[0] * 13 + list(range(1, 12))]
    found = measure_dispersion(texts, vectors, 0, "x")
    assert [topic.count for topic in found.topics] == [13, *[1] * 11]
    assert found.effective < 8
    same = measure_dispersion(texts, np.full((24, 16), 0.25, np.float32), 0, "x")
    assert (len(same.topics), same.effective) == (1, 1)
    assert (same.cosine, same.nearest) == (1, 1)


def test_what_checks_mended_is_no_agreement_of_a_grader():
    labels = [
        Label(query="q0", tool="shop.weigh", grade="needed"),
        Label.alternative("q0", "shop.sum", "shop.weigh", "deprecated"),
        Label(query="q1", grade="aside", reason="round-trip: shop.sum"),
    ]
    rows = [("a", ["shop.sum"]), ("b", ["shop.sum"])]
    assert measure_quality(bank(*rows, labels=labels), 0).labels is None


def test_agreement_is_of_the_verified_requests():
    labels = [
        Label(query="q0", tool="shop.sum", grade="needed"),
        Label(query="q0", tool="shop.weigh", grade="needed"),
        Label(query="q1", grade="aside", reason="unclear"),
        Label(query="q2", tool="shop.sum", grade="needed"),
        Label.alternative("q2", "shop.weigh", "shop.sum", "as well"),
    ]
    rows = [("a", ["shop.sum"]), ("b", ["shop.sum"]), ("c", ["shop.sum", "shop.weigh"])]
    found = measure_quality(bank(*rows, ("d", ["x"]), labels=labels), 0).labels
    assert (found.requests, found.same) == (3, 0)
    assert found.aside == pytest.approx(1 / 3)
    assert found.precision == pytest.approx(2 / 3)
    assert found.recall == pytest.approx(2 / 3)
