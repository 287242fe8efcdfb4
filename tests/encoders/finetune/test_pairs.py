import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbank.encoders.finetune_data import (
    draw_negatives,
    draw_pairs,
    make_texts,
    mine_negatives,
    share_tool,
)
from toolbank.encoders.sentence import SentenceConfig

USES = st.lists(st.sets(st.integers(0, 4), max_size=3), min_size=1, max_size=12)
PLAIN = SentenceConfig()
BOTH = ("query-query", "query-description")


def texts_of(uses, n_tools=5, encoder=PLAIN):
    padded = np.full((len(uses), max(map(len, uses), default=0)), -1, np.int64)
    for row, tools in zip(padded, uses, strict=True):
        row[: len(tools)] = sorted(tools)
    queries = [f"q{i}" for i in range(len(uses))]
    return make_texts(encoder, queries, padded, [f"d{i}" for i in range(n_tools)])


def tools_of(texts, position):
    return {int(tool) for tool in texts.tools[position] if tool >= 0}


def test_e5s_prefixes_stand_before_both_kinds():
    e5 = SentenceConfig(query_prefix="query: ", document_prefix="passage: ")
    texts = texts_of([{0}, {0, 1}], n_tools=2, encoder=e5)
    assert texts.texts == ("query: q0", "query: q1", "passage: d0", "passage: d1")
    assert texts.tools.tolist() == [[0, -1], [0, 1], [0, -1], [1, -1]]
    assert (texts.n_queries, texts.n_tools) == (2, 2)


@given(USES, st.integers(-5, 5))
def test_each_use_has_its_description_and_another_query_of_the_tool(uses, seed):
    texts = texts_of(uses)
    pairs = draw_pairs(texts, BOTH, seed)
    between = pairs[pairs[:, 1] < texts.n_queries]
    described = pairs[pairs[:, 1] >= texts.n_queries]
    for anchor, partner in between:
        assert anchor != partner
        assert uses[anchor] & uses[partner]
    wanted = [(i, tool) for i, tools in enumerate(uses) for tool in tools]
    found = [(int(a), int(d) - texts.n_queries) for a, d in described]
    assert sorted(found) == sorted(wanted)
    counts = [sum(tool in tools for tools in uses) for _, tool in wanted]
    assert len(between) == sum(count > 1 for count in counts)
    np.testing.assert_array_equal(draw_pairs(texts, BOTH, seed), pairs)


@given(USES, st.integers(0, 5))
def test_a_random_negative_shares_no_tool_and_is_of_the_positives_kind(uses, seed):
    texts = texts_of(uses)
    pairs = draw_pairs(texts, BOTH, seed)
    for (anchor, positive), negative in zip(
        pairs, draw_negatives(texts, pairs, seed), strict=True
    ):
        is_query = positive < texts.n_queries
        pool = range(5) if not is_query else range(len(uses))
        start = 0 if is_query else texts.n_queries
        fitting = [
            start + i
            for i in pool
            if not tools_of(texts, start + i) & tools_of(texts, anchor)
        ]
        assert negative in (fitting or [positive])


@given(USES, st.integers(1, 4), st.integers(0, 3))
def test_hard_negatives_are_the_nearest_that_share_no_tool(uses, count, seed):
    texts = texts_of(uses)
    pairs = draw_pairs(texts, BOTH, seed)
    vectors = np.random.default_rng(seed).normal(size=(len(texts.texts), 3))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype("f4")
    mined = mine_negatives(texts, pairs, vectors, count)
    assert mined.shape == (len(pairs), count)
    for (anchor, positive), row in zip(pairs, mined, strict=True):
        is_query = positive < texts.n_queries
        pool = range(len(uses)) if is_query else range(len(uses), len(texts.texts))
        fitting = [i for i in pool if not tools_of(texts, i) & tools_of(texts, anchor)]
        fitting.sort(key=lambda i: -float(vectors[anchor] @ vectors[i]))
        expected = (fitting + [positive] * count)[:count]
        np.testing.assert_allclose(
            vectors[row] @ vectors[anchor],
            vectors[expected] @ vectors[anchor],
            atol=1e-6,
        )
        assert sorted(row.tolist()) == sorted(expected) or len(set(row)) == len(row)


def test_any_fitting_query_may_be_drawn():
    texts = texts_of([{0}] * 4)
    drawn = {
        (int(a), int(b))
        for seed in range(60)
        for a, b in draw_pairs(texts, ("query-query",), seed)
    }
    assert drawn == {(a, b) for a in range(4) for b in range(4) if a != b}
    texts = texts_of([{0}] * 400 + [{1}])
    pairs = draw_pairs(texts, ("query-query",), 0)
    assert set(draw_negatives(texts, pairs, 0).tolist()) == {400}


@pytest.mark.parametrize(
    ("left", "right", "shares"),
    [([0, -1], [1, -1], False), ([0, 2], [2, -1], True), ([-1, -1], [-1, -1], False)],
)
def test_padding_is_no_shared_tool(left, right, shares):
    assert share_tool(np.array([left]), np.array([right])).tolist() == [[shares]]


def test_hard_negatives_are_the_same_however_many_are_compared_at_once(monkeypatch):
    texts = texts_of([{i % 4} for i in range(40)])
    pairs = draw_pairs(texts, BOTH, 0)
    vectors = np.random.default_rng(0).normal(size=(len(texts.texts), 3)).astype("f4")
    whole = mine_negatives(texts, pairs, vectors, 3)
    monkeypatch.setattr("toolbank.bank.ranking._BLOCK_SCORES", 100)
    np.testing.assert_array_equal(mine_negatives(texts, pairs, vectors, 3), whole)
