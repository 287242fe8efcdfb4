import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tests.retrievers.small_methods import NAMES, fit_one, name_query, named_bank
from tests.tiny_models import tiny_encoder
from toolbank.bank.bank import Bank
from toolbank.bank.records import Query
from toolbank.encoders.sentence import SentenceConfig
from toolbank.retrievers.nnn import solve
from toolbank.retrievers.relevance import validation_recall
from toolbank.retrievers.settings import NnnConfig, Tool2VecConfig
from toolbank.retrievers.tool2vec import Tool2VecRetriever
from toolbank.retrievers.unseen import keep_ranks


def solve_one(vectors, query, l1, l2):
    gram = (vectors @ vectors.T)[None]
    return solve(gram, (vectors @ query)[None], l1, l2)[0]


numbers = st.floats(-2, 2, width=32)
problems = st.tuples(st.integers(1, 6), st.integers(1, 5)).flatmap(
    lambda shape: st.tuples(
        arrays.arrays(np.float64, shape, elements=numbers),
        arrays.arrays(np.float64, shape[1], elements=numbers),
    )
)


def check_minimum(vectors, query, l1, l2):
    """Check the conditions of Karush, Kuhn and Tucker, which hold at the minimum alone."""
    weights = solve_one(vectors, query, l1, l2)
    gradient = vectors @ (vectors.T @ weights - query) + l1 + l2 * weights
    assert (weights >= 0).all()
    # Where a weight is not zero the gradient is, and nowhere would more weight help.
    assert gradient.min() > -1e-5
    assert np.abs(weights * gradient).max() < 1e-5


@settings(deadline=None)
@given(problems, st.sampled_from([0.0, 0.1, 0.5]), st.sampled_from([0.1, 1.0]))
def test_weights_are_the_best_of_any_problem(problem, l1, l2):
    check_minimum(*problem, l1, l2)


@pytest.mark.parametrize(("l1", "l2"), [(0, 0), (0.05, 0.1), (0.3, 3), (0.01, 0)])
def test_weights_of_twelve_unit_vectors_are_the_best(l1, l2):
    random = np.random.default_rng(0)
    for _ in range(20):
        vectors = random.normal(size=(12, 30)) + 0.7
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        query = vectors[:3].mean(axis=0) + 0.1 * random.normal(size=30)
        check_minimum(vectors, query, l1, l2)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tiny_encoder(tmp_path_factory.mktemp("encoder"), words=NAMES)
    return SentenceConfig(model=str(folder))


@pytest.fixture(scope="module")
def bank():
    return named_bank(
        name_query(
            "please {} and {}", "validation" if (a + b) % 5 == 0 else "train", a, b
        )
        for a in range(8)
        for b in range(a)
    )


def fit(bank, first, **settings):
    return fit_one(NnnConfig(first_stage=first.name, **settings), bank, first)


@pytest.fixture(scope="module")
def first(bank, encoder):
    return fit_one(Tool2VecConfig(encoder=encoder), bank)


def test_scores_are_weights_above_one_and_cosines_below(bank, first):
    retriever = fit(bank, first, l1=0.05, l2=0.1, candidates=5)
    query = first.embed(["the rain"])[0].astype(np.float64)
    indices, scores = retriever.search(["the rain"], 8)
    cosines = first.vectors @ query
    candidates = np.argsort(-cosines, kind="stable")[:5]
    weights = solve_one(first.vectors[candidates].astype(np.float64), query, 0.05, 0.1)
    expected = {int(i): 1 + w for i, w in zip(candidates, weights, strict=True) if w}
    for index, score in zip(indices[0].tolist(), scores[0], strict=True):
        assert score == pytest.approx(expected.get(index, cosines[index]), abs=1e-4)
    assert 0 < len(expected) <= 5
    assert sorted(indices[0].tolist()) == list(range(8))
    assert (np.diff(scores[0]) <= 0).all()


def test_train_queries_meet_their_own_tools_as_if_they_were_not_there(bank, first):
    retriever = fit(bank, first, l1=0.05, l2=0.1, candidates=5)
    hits, scores = retriever.search_train(bank, 8)
    train = bank.split("train")
    for row in (0, 7, len(train) - 1):
        own = {bank.index[name] for name in train[row].tools}
        vectors = first.vectors.copy()
        places = sorted(own)
        vectors[places] = first.own_vectors(bank)[row, : len(places)]
        without = Tool2VecRetriever(first.config)
        without.tools, without.common = first.tools, first.common
        without.vectors, without.seen = vectors, np.ones(len(vectors), np.bool_)
        expected = fit(bank, without, l1=0.05, l2=0.1, candidates=5)
        found = expected.search([train[row].query], 8)
        np.testing.assert_array_equal(hits[row], found[0][0])
        np.testing.assert_allclose(scores[row], found[1][0], atol=1e-5)


def test_strengths_that_are_not_set_are_chosen_on_validation_queries(bank, first):
    chosen = fit(bank, first, candidates=5)
    best = validation_recall(chosen.search, bank)
    for l1, l2 in ((0.3, 3.0), (0.05, 0.1), (0.2, 1.0)):
        one = fit(bank, first, l1=l1, l2=l2)
        assert best >= validation_recall(one.search, bank) - 1e-5
    unseen = Bank(bank.tools, bank.split("train"))
    assert (fit(unseen, first).l1, fit(unseen, first).l2) == (0.3, 3.0)
    kept = fit(bank, first, l1=0.07)
    assert kept.l1 == 0.07


FEW = ("rose", "house", "road")


@pytest.fixture(scope="module")
def few(bank):
    """The bank without the queries that use three of its tools."""
    kept = [query for query in bank.queries if not {*query.tools} & {*FEW}]
    return Bank(bank.tools, tuple(kept))


@pytest.fixture(scope="module")
def first_of_few(few, encoder):
    return fit_one(Tool2VecConfig(encoder=encoder), few)


REQUESTS = ["the rain", "please rose and song", "the house", "mail the parcel", ""]


def test_unseen_tools_keep_the_ranks_of_the_first_stage(few, first_of_few):
    retriever = fit(few, first_of_few, l1=0.05, l2=0.1, candidates=5)
    indices, scores = retriever.search(REQUESTS, 8)
    expected, _ = first_of_few.search(REQUESTS, 8)
    places = [few.index[name] for name in FEW]
    np.testing.assert_array_equal(np.isin(indices, places), np.isin(expected, places))
    unused = np.isin(indices, places)
    np.testing.assert_array_equal(indices[unused], expected[unused])
    # The others stand in the order that they have where there are no others.
    used = np.setdiff1d(np.arange(8), places)
    alone = Tool2VecRetriever(first_of_few.config)
    alone.tools = tuple(first_of_few.tools[place] for place in used)
    alone.common = first_of_few.common
    alone.vectors, alone.seen = first_of_few.vectors[used], np.ones(5, np.bool_)
    hits, own = fit(few, alone, l1=0.05, l2=0.1, candidates=5).search(REQUESTS, 5)
    np.testing.assert_array_equal(indices[~unused].reshape(-1, 5), used[hits])
    np.testing.assert_allclose(scores[~unused].reshape(-1, 5), own, atol=1e-5)
    assert (np.diff(scores) <= 0).all()
    assert sorted(indices[0].tolist()) == list(range(8))


def test_tools_that_only_one_train_query_uses_are_without_use_for_it(few, encoder):
    once = Query(id="once", query="a rose", tools=("rose",), split="train")
    grown = Bank(few.tools, (*few.queries, once))
    first = fit_one(Tool2VecConfig(encoder=encoder), grown)
    indices, scores = fit(grown, first, candidates=5).search_train(grown, 8)
    expected, _ = first.search_train(grown, 8)
    rose = grown.index["rose"]
    assert (indices[-1] == rose).argmax() == (expected[-1] == rose).argmax()
    assert (np.diff(scores) <= 0).all()
    assert all(sorted(row) == list(range(8)) for row in indices.tolist())


def test_scores_of_tools_without_use_worked_by_hand():
    first = (np.array([[9, 1, 8, 7, 2, 6]]), np.zeros((1, 6), np.float32))
    unused = np.array([[True, False, True, True, False, True]])
    low = -np.inf
    others = np.array([[2, 1, 0, 0, 0, 0]]), np.array([[0.9, 0.3, low, low, low, low]])
    indices, scores = keep_ranks(first, unused, others)
    assert indices.tolist() == [[9, 2, 8, 7, 1, 6]]
    np.testing.assert_allclose(scores, [[1.4, 0.9, 0.6, 0.5, 0.3, -0.2]], atol=1e-6)
    none = np.full((1, 6), low)
    indices, scores = keep_ranks(first, np.full((1, 6), True), (others[0], none))
    assert indices.tolist() == first[0].tolist()
    assert (np.diff(scores) < 0).all()
