"""Ranking is exact, and the order of the tools makes no difference."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from toolbank.bank.ranking import draw_ties, search_vectors, top_k

SCORES = arrays(
    np.float32,
    st.tuples(st.integers(0, 4), st.integers(0, 12)),
    elements=st.sampled_from([-1.5, -0.25, -0.0, 0.0, 0.25, 3.0])
    | st.floats(-1e6, 1e6, width=32),
)


@given(SCORES, st.integers(0, 15))
def test_best_k_are_those_of_a_stable_sort(scores, k):
    indices, values = top_k(scores, k)
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(scores, expected, axis=1))


@given(SCORES, st.integers(0, 15), st.randoms())
def test_no_order_of_the_tools_changes_what_is_found(scores, k, random):
    n, m = scores.shape
    queries = [f"query {row}" for row in range(n)]
    names = tuple(f"tool.{column}" for column in range(m))
    indices, values = top_k(scores, k, draw_ties(queries, names).order())
    moved = random.sample(range(m), m)
    places = np.array(moved, dtype=np.int64)
    ties = draw_ties(queries, tuple(names[place] for place in moved))
    others, same = top_k(scores[:, places], k, ties.order())
    np.testing.assert_array_equal(places[others] if m else others, indices)
    np.testing.assert_array_equal(same, values)


@given(SCORES, st.integers(0, 15))
def test_lots_that_are_drawn_for_a_few_give_what_those_of_all_do(scores, k):
    n, m = scores.shape
    ties = draw_ties([f"query {row}" for row in range(n)], tuple(map(str, range(m))))
    found, expected = top_k(scores, k, ties), top_k(scores, k, ties.order())
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


def test_what_is_not_a_number_comes_last():
    scores = np.array([[np.nan, 1, -np.inf, 3]], np.float32)
    assert top_k(scores, 2)[0].tolist() == [[3, 1]]
    assert set(top_k(scores, 9)[0][0, 2:].tolist()) == {0, 2}


def test_equal_tools_are_found_as_often_as_each_other():
    names = tuple(f"tool.{number:02}" for number in range(20))
    queries = [f"query {number}" for number in range(2000)]
    scores = np.zeros((len(queries), len(names)), np.float32)
    first, _ = top_k(scores, 3, draw_ties(queries, names).order())
    counts = np.bincount(first.ravel(), minlength=len(names))
    # Each is expected 300 times, give or take 16.
    assert 230 < counts.min() <= counts.max() < 370


def test_the_order_of_some_tools_is_that_among_all():
    ties = draw_ties(["one", "two"], ("a", "b", "c"))
    some = np.array([[2, 0], [1, 2]])
    expected = np.take_along_axis(ties.order(), some, axis=1)
    np.testing.assert_array_equal(ties.order_of(some), expected)


def test_equal_vectors_are_ordered_by_lot_alone():
    random = np.random.default_rng(0)
    vectors = np.repeat(random.normal(size=(5, 384)), 40, axis=0).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    ties = draw_ties(["any"], tuple(map(str, range(200))))
    indices, _ = search_vectors(vectors[:1], vectors, ties, 40)
    assert indices[0].tolist() == np.argsort(ties.order()[0, :40]).tolist()


def test_blocks_give_the_same_as_one_search(monkeypatch):
    random = np.random.default_rng(1)
    queries = random.normal(size=(23, 8)).astype(np.float32)
    vectors = random.normal(size=(11, 8)).astype(np.float32)
    ties = draw_ties(list(map(str, range(23))), tuple(map(str, range(11))))
    whole = search_vectors(queries, vectors, ties, 4)
    monkeypatch.setattr("toolbank.bank.ranking._BLOCK_SCORES", 30)
    hits, scores = search_vectors(queries, vectors, ties, 4)
    np.testing.assert_array_equal(hits, whole[0])
    # A processor may add up a product of another height in another order.
    np.testing.assert_allclose(scores, whole[1], rtol=1e-5, atol=1e-5)
