"""Ranking is exact, and ties stand in the order of the tools."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from toolbank.ranking.topk import search_vectors, top_k

SCORES = arrays(
    np.float32,
    st.tuples(st.integers(0, 4), st.integers(0, 12)),
    elements=st.sampled_from([-1.5, -0.25, -0.0, 0.0, 0.25, 3.0]),
)


@given(SCORES, st.integers(0, 15))
def test_best_k_are_those_of_a_stable_sort(scores, k):
    indices, values = top_k(scores, k)
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(scores, expected, axis=1))


@given(
    arrays(np.float32, (2, 9), elements=st.floats(-1e6, 1e6, width=32)),
    st.integers(1, 9),
)
def test_any_floats_are_ordered(scores, k):
    _, values = top_k(scores, k)
    np.testing.assert_array_equal(values, -np.sort(-scores, axis=1)[:, :k])


def test_equal_vectors_keep_the_order_of_the_tools():
    random = np.random.default_rng(0)
    vectors = np.repeat(random.normal(size=(5, 384)), 40, axis=0).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    indices, _ = search_vectors(vectors[:1], vectors, 40)
    assert indices[0].tolist() == list(range(40))


def test_blocks_give_the_same_as_one_search(monkeypatch):
    random = np.random.default_rng(1)
    queries = random.normal(size=(23, 8)).astype(np.float32)
    vectors = random.normal(size=(11, 8)).astype(np.float32)
    whole = search_vectors(queries, vectors, 4)
    monkeypatch.setattr("toolbank.ranking.topk._BLOCK_SCORES", 30)
    for one, other in zip(search_vectors(queries, vectors, 4), whole, strict=True):
        np.testing.assert_array_equal(one, other)
