import json
from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.requests.quality.banks import TOOLS, bank
from tests.world import WORDS
from toolbank.bank.bank import Label
from toolbank.requests.quality.measure import (
    draw_lorenz,
    measure_coverage,
    measure_dispersion,
    measure_duplicates,
    measure_gini,
    measure_leaks,
    measure_polish,
    measure_quality,
    measure_sets,
)
from toolbank.requests.quality.texts import make_requests, make_tools

THINGS = WORDS[:12]


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
    return json.loads(json.dumps(measure_quality(of, seed).as_json(), allow_nan=False))


def test_the_same_bank_in_another_order_has_the_same_figures():
    of = shop()
    queries, asks = list(of.queries), list(of.asks)
    Random(0).shuffle(queries)
    other = replace(of, tools=of.tools[::-1], queries=tuple(queries), asks=tuple(asks))
    assert measure(of) == measure(other)
    assert measure(of)["coverage"]["used"]["20"] == 1


def test_a_bank_of_nothing_has_no_figures():
    found = measure(bank(tools=()))
    assert {key for key, value in found.items() if value} == set()


def test_topics_are_named_by_what_sets_them_apart():
    texts = [query.query for query in shop().queries]
    found = measure_dispersion(texts, corners(texts), 0, "corners")
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


USES = st.lists(st.integers(0, 50), min_size=1, max_size=40).filter(any)


def by_definition(uses):
    """Half the mean absolute difference of all pairs, over the mean."""
    differences = [abs(a - b) for a in uses for b in uses]
    return sum(differences) / len(uses) ** 2 / 2 / (sum(uses) / len(uses))


@given(USES)
def test_gini_is_what_its_definition_says_whatever_the_order(uses):
    found = measure_gini(pl.Series(uses))
    assert found == pytest.approx(by_definition(uses), abs=1e-9)
    assert 0 <= found <= 1 - 1 / len(uses) + 1e-9
    assert found == measure_gini(pl.Series(sorted(uses)))
    assert found == pytest.approx(measure_gini(pl.Series([3 * n for n in uses])))


@given(USES)
def test_lorenz_rises_below_the_diagonal_and_leaves_out_what_gini_says(uses):
    steps = len(uses)
    shares = draw_lorenz(pl.Series(uses), steps)
    assert shares[0] == 0
    assert shares[-1] == pytest.approx(1)
    assert list(shares) == sorted(shares)
    assert all(s <= n / steps + 1e-9 for n, s in enumerate(shares))
    area = sum((a + b) / 2 for a, b in pairwise(shares)) / steps
    assert 1 - 2 * area == pytest.approx(measure_gini(pl.Series(uses)), abs=1e-9)


def test_coverage_by_hand():
    shop = bank(
        ("a", ["shop.sum", "shop.find_order"]),
        ("b", ["shop.sum", "shop.undo", "shop.cancelOrder"]),
        ("c", ["shop.sum", "not.there"]),
    )
    found = measure_coverage(make_requests(shop), make_tools(shop))
    # find_order 1, sum 3, cancelOrder 1 (its alias is the same tool), weigh 0.
    assert found.tools == 4
    assert found.used == {1: 0.75, 2: 0.25, 5: 0, 10: 0, 20: 0}
    # Pairs differ by 1, 1, 3, 2, 2, 0: their mean over ordered pairs is 18/16, the mean use 5/4.
    assert found.gini == pytest.approx(18 / 16 / 2 / (5 / 4))
    assert found.lorenz[10] == pytest.approx(1 / 5)


def test_nothing_to_cover():
    for empty in (bank(), bank(("a", ["x"])), bank(("a", ["x"]), tools=())):
        assert measure_coverage(make_requests(empty), make_tools(empty)) is None


def test_sets_are_the_same_in_any_order_and_by_any_name():
    shop = bank(
        ("a", ["shop.sum", "shop.undo"]),
        ("b", ["shop.cancelOrder", "shop.sum"]),
        ("c", ["shop.sum"]),
        ("d", ["shop.sum", "shop.weigh", "shop.find_order"]),
    )
    found = measure_sets(make_requests(shop))
    assert (found.distinct, found.share, found.largest) == (3, 0.75, 0.5)
    assert (found.sizes, found.mean) == ({1: 1, 2: 2, 3: 1}, 2)


def test_leaks_are_names_that_are_said():
    rows = [
        ("Use find_order for it", ["shop.find_order"]),  # an identifier, and no words
        ("Please find order 12", ["shop.find_order", "shop.sum"]),
        ("What is the Sum of it?", ["shop.sum"]),
        ("Find the order", ["shop.find_order"]),
        ("Summarise it", ["shop.sum"]),
        ("cancel order 3, and sum it", ["shop.sum", "shop.undo"]),
        ("sum it", ["shop.weigh"]),
        ("x", ["shop.weigh"]),
    ]
    found = measure_leaks(make_requests(bank(*rows)), TOOLS)
    assert found.identifier == 1 / 8
    assert found.name == 3 / 8
    assert found.word == 1 / 8
    assert measure_leaks(make_requests(bank(*rows)), ()) is None


def test_polish_is_measured_on_what_was_drafted():
    shop = bank(
        ("Load and sort it.", ["x"]),
        ("How much is it next Monday?", ["x"]),
        ("Where is it? Then where?", ["x"]),
        drafts=["Load it. Next sort it.", "How much is it next Monday? "],
    )
    found = measure_polish(make_requests(shop))
    assert (found.drafts, found.changed) == (2, 0.5)
    before, after = found.before, found.after
    assert (before.n, before.sequence, before.commands) == (2, 0.5, 0.5)
    assert (after.sequence, after.commands) == pytest.approx((1 / 3, 1 / 3))
    found = measure_polish(make_requests(bank(("a", ["x"]))))
    assert (found.drafts, found.changed, found.before) == (0, None, None)


def test_near_duplicates_count_from_the_second_on():
    text = "how many of the boxes came back to us last month in all"
    texts = [text, f"{text}, please", "something else", text]
    found = measure_duplicates(texts, seed=0)
    assert (found.n, found.count, found.share) == (4, 2, 0.5)
    assert found == measure_duplicates(texts[::-1], seed=3)
