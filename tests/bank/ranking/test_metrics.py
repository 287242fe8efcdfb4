"""Metrics equal the reference library's, and their definitions' corner cases."""

import ir_measures
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import RR, R, nDCG
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching
from scipy.stats import binomtest

from toolbank.bank.ranking import (
    comp,
    match_gold,
    match_places,
    mrr,
    ndcg,
    recall,
    recall_or_twin,
    wilson_interval,
)

N_TOOLS = 12


@st.composite
def judged_rankings(draw):
    """Rankings of some depth and the gold sets; index 12 and above is never found."""
    n = draw(st.integers(1, 4))
    depth = draw(st.integers(1, N_TOOLS))
    hits = [draw(st.permutations(range(N_TOOLS)))[:depth] for _ in range(n)]
    gold = [
        draw(st.sets(st.integers(0, N_TOOLS + 3), min_size=1, max_size=6))
        for _ in range(n)
    ]
    return np.array(hits), gold


def pad(gold):
    padded = np.full((len(gold), max(map(len, gold))), -1)
    for row, tools in zip(padded, gold, strict=True):
        row[: len(tools)] = sorted(tools)
    return padded


def reference(measure, hits, gold):
    qrels = [
        ir_measures.Qrel(str(q), str(tool), 1) for q, s in enumerate(gold) for tool in s
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


@given(judged_rankings(), st.integers(1, 15))
def test_comp_is_one_where_recall_is_complete(ranked, k):
    hits, gold = ranked
    found, n_gold = match_gold(hits, pad(gold)), np.array([len(g) for g in gold])
    complete = [
        set(g) <= set(row[:k].tolist()) for g, row in zip(gold, hits, strict=True)
    ]
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
    fits = np.array(
        [[tool in {n, *others} for n, others in places.items()] for tool in hits]
    )
    for k in range(1, len(hits) + 1):
        matched = maximum_bipartite_matching(csr_array(fits[:k]), perm_type="column")
        assert found[:k].sum() == (matched >= 0).sum()


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_interval_is_scipys_wilson(case):
    count, n = case
    expected = binomtest(count, n).proportion_ci(0.95, method="wilson")
    assert wilson_interval(count, n) == pytest.approx(expected, abs=1e-12)
