"""Ranking is exact, and metrics equal the reference library's."""

from functools import partial

import ir_measures
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from ir_measures import RR, R, nDCG
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching
from scipy.stats import binomtest

from toolbank.bank.ranking import (
    comp,
    draw_ties,
    graded_ndcg,
    match_gold,
    match_places,
    mrr,
    ndcg,
    recall,
    recall_or_twin,
    search_vectors,
    top_k,
    wilson_interval,
)

N_TOOLS = 12


@st.composite
def judged_rankings(draw):
    """Rankings of some depth and the gold sets; index 12 and above is never found."""
    n = draw(st.integers(1, 4))
    depth = draw(st.integers(1, N_TOOLS))
    hits = [draw(st.permutations(range(N_TOOLS)))[:depth] for _ in range(n)]
    tools = st.sets(st.integers(0, N_TOOLS + 3), min_size=1, max_size=6)
    gold = [draw(tools) for _ in range(n)]
    return np.array(hits), gold


def pad(gold):
    padded = np.full((len(gold), max(map(len, gold))), -1)
    for row, tools in zip(padded, gold, strict=True):
        row[: len(tools)] = sorted(tools)
    return padded


def reference(measure, hits, gold):
    """The values of ir_measures; `gold` are sets of tools, or their grades."""
    qrels = [
        ir_measures.Qrel(
            str(q), str(tool), tools[tool] if isinstance(tools, dict) else 1
        )
        for q, tools in enumerate(gold)
        for tool in tools
    ]
    run = [
        ir_measures.ScoredDoc(str(q), str(tool), -rank)
        for q, row in enumerate(hits)
        for rank, tool in enumerate(row)
    ]
    values = {v.query_id: v.value for v in measure.iter_calc(qrels, run)}
    return [values[str(q)] for q in range(len(gold))]


@given(judged_rankings(), st.sampled_from([1, 3, 5, 10, 20]))
def test_metrics_equal_those_of_ir_measures(ranked, k):
    hits, gold = ranked
    found, n_gold = match_gold(hits, pad(gold)), np.array([len(g) for g in gold])
    np.testing.assert_allclose(recall(found, n_gold, k), reference(R @ k, hits, gold))
    np.testing.assert_allclose(ndcg(found, n_gold, k), reference(nDCG @ k, hits, gold))
    np.testing.assert_allclose(mrr(found), reference(RR, hits, gold))


@given(judged_rankings(), st.data(), st.sampled_from([1, 3, 5, 20]))
def test_ndcg_of_graded_tools_equals_that_of_ir_measures(ranked, data, k):
    hits, gold = ranked
    draw = partial(data.draw, st.integers(1, 2))
    grades = [{tool: draw() for tool in sorted(tools)} for tools in gold]
    expected = reference(nDCG @ k, hits, grades)
    np.testing.assert_allclose(graded_ndcg(hits, grades, k), expected)


@given(judged_rankings(), st.integers(1, 15))
def test_comp_is_one_where_recall_is_complete(ranked, k):
    hits, gold = ranked
    found, n_gold = match_gold(hits, pad(gold)), np.array([len(g) for g in gold])
    pairs = zip(gold, hits.tolist(), strict=True)
    complete = [set(tools) <= set(row[:k]) for tools, row in pairs]
    assert comp(found, n_gold, k).tolist() == complete


def test_a_worked_example():
    # -1 fills up a row of few hits.
    hits = np.array([[4, 1, 2, 0], [3, 0, 1, 2], [1, -1, -1, -1], [-1, -1, -1, -1]])
    found = match_gold(hits, pad([{1, 2}, {9}, {1, 5}, {1}]))
    n_gold = np.array([2, 1, 2, 1])
    assert recall(found, n_gold, 2).tolist() == [0.5, 0, 0.5, 0]
    assert comp(found, n_gold, 3).tolist() == [1, 0, 0, 0]
    assert mrr(found).tolist() == [0.5, 0, 1, 0]
    dcg = 1 / np.log2(3) + 1 / np.log2(4)
    assert ndcg(found, n_gold, 3)[0] == pytest.approx(dcg / (1 + 1 / np.log2(3)))
    nothing = match_gold(np.zeros((2, 0), np.int64), pad([{0}, {1}]))
    for metric in (recall, ndcg, comp):
        assert metric(nothing, np.array([1, 1]), 5).tolist() == [0, 0]
    assert mrr(nothing).tolist() == [0, 0]


def test_a_worked_example_of_recall_where_a_twin_counts():
    # Of the tools 0 to 6, 1 and 4 are twins, and so are 2, 5 and 6.
    twins = np.array([0, 1, 2, 3, 1, 2, 2])
    hits = np.array([[4, 0, 6], [3, 5, 0], [5, 3, 0], [0, -1, -1]])
    # Unlike 1, neither 9 nor 0 has a twin; the third asks for twins of each other.
    gold = pad([{1, 0, 9}, {2, 3}, {2, 6}, {1, 4}])
    assert recall_or_twin(hits, gold, twins, 1).tolist() == [1 / 3, 1 / 2, 1, 0]
    assert recall_or_twin(hits, gold, twins, 2).tolist() == [2 / 3, 1, 1, 0]
    nothing = np.zeros((4, 0), np.int64)
    assert recall_or_twin(nothing, gold, twins, 5).tolist() == [0] * 4


@given(
    judged_rankings(),
    st.integers(1, 15),
    st.lists(st.integers(0, N_TOOLS - 1), min_size=N_TOOLS, max_size=N_TOOLS),
)
def test_a_tool_is_found_where_it_or_a_twin_is(ranked, k, groups):
    hits, gold = ranked
    twins = np.array([groups.index(group) for group in groups])
    found = recall_or_twin(hits, pad(gold), twins, k)
    alike = [
        {other for other in range(N_TOOLS) if groups[other] == groups[tool]}
        for tool in range(N_TOOLS)
    ]
    expected = [
        np.mean([bool(set(row[:k]) & (alike[t] if t < N_TOOLS else {t})) for t in g])
        for g, row in zip(gold, hits.tolist(), strict=True)
    ]
    np.testing.assert_allclose(found, expected)
    strict = recall(match_gold(hits, pad(gold)), np.array([len(g) for g in gold]), k)
    assert (found >= strict).all()
    # Which of the twins is found makes no difference.
    np.testing.assert_allclose(recall_or_twin(twins[hits], pad(gold), twins, k), found)
    alone = recall_or_twin(hits, pad(gold), np.arange(N_TOOLS), k)
    np.testing.assert_allclose(alone, strict)


@st.composite
def ranked_places(draw):
    """A ranking, and needed tools with what may stand for each."""
    hits = draw(st.permutations(range(N_TOOLS)))[: draw(st.integers(1, N_TOOLS))]
    tools = st.integers(0, N_TOOLS + 1)
    needed = draw(st.sets(tools, min_size=1, max_size=4))
    others = st.frozensets(tools, max_size=3)
    return hits, {tool: draw(others) - needed for tool in sorted(needed)}


@given(ranked_places())
def test_so_many_places_are_filled_by_each_prefix_as_a_matching_can_fill(ranked):
    hits, places = ranked
    found = match_places(np.array([hits]), [places])[0]
    names = [{needed, *others} for needed, others in places.items()]
    fits = np.array([[tool in alike for alike in names] for tool in hits])
    for k in range(1, len(hits) + 1):
        matched = maximum_bipartite_matching(csr_array(fits[:k]), perm_type="column")
        assert found[:k].sum() == (matched >= 0).sum()


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_interval_is_scipys_wilson(case):
    count, n = case
    expected = binomtest(count, n).proportion_ci(0.95, method="wilson")
    assert wilson_interval(count, n) == pytest.approx(expected, abs=1e-12)


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
