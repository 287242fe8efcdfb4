import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from tests.retrievers.small_methods import encoder_for
from tests.world import make_bank
from toolbank.bank.bank import Bank
from toolbank.encoders import load_encoder
from toolbank.retrievers.lexical import LexicalIndex
from toolbank.retrievers.relevance import train_relevance
from toolbank.retrievers.unseen import DescriptionOdds, spread_rows, unseen_without
from toolbank.system.errors import InputError


@pytest.fixture(scope="module")
def encoder(bank, tmp_path_factory):
    return load_encoder(encoder_for(tmp_path_factory.mktemp("encoder"), bank))


@pytest.fixture
def described(encoder, bank):
    return DescriptionOdds().fit(bank.tools, train_relevance(bank), encoder)


def make_scale(values, holds):
    described = DescriptionOdds()
    uses = np.where(holds, 0, -1)[:, None]
    scores = np.asarray(values, np.float32)[:, None]
    described.fit_scale(scores, uses, np.zeros(scores.shape, np.bool_))
    return described.scale


@pytest.mark.parametrize("encodes", [True, False])
def test_a_tool_is_found_by_the_words_of_its_description(encoder, bank, encodes):
    by = encoder if encodes else None
    described = DescriptionOdds().fit(bank.tools, train_relevance(bank), by)
    summaries = [tool.summary for tool in bank.tools]
    best = described.log_odds(summaries, by).argmax(axis=1)
    assert best.tolist() == list(range(len(bank.tools)))


def test_chances_are_as_many_as_hold_for_tools_in_use(encoder):
    summaries = {f"t{i}": f"the number {i} and {i % 7}" for i in range(20)}
    uses = [(f"give {i % 9} and {i % 7}", [f"t{i % 9}"], "train") for i in range(200)]
    bank = make_bank(summaries, uses)
    described = DescriptionOdds().fit(bank.tools, train_relevance(bank), encoder)
    odds = described.log_odds([q.query for q in bank.queries], encoder)[:, :9]
    # Of the nine that are used a query needs one; the others count for nothing.
    assert (1 / (1 + np.exp(-odds))).mean() == pytest.approx(1 / 9, rel=0.1)


def test_what_is_nearer_is_never_the_less_likely(encoder, bank):
    others = [bank.tools[-1 - i].name for i in range(len(bank.tools))]
    summaries = {tool.name: tool.summary for tool in bank.tools}
    pairs = zip(summaries.values(), others, strict=True)
    wrong = [(summary, [other], "train") for summary, other in pairs] * 30
    relevance = train_relevance(make_bank(summaries, wrong))
    described = DescriptionOdds().fit(bank.tools, relevance, encoder)
    assert (described.coefficients[:-1] > 0).all()


def test_without_queries_the_regression_is_finite(encoder, bank):
    relevance = train_relevance(Bank(bank.tools))
    described = DescriptionOdds().fit(bank.tools, relevance, encoder)
    assert np.isfinite(described.log_odds(["a song"], encoder)).all()


def test_an_added_tool_is_as_one_that_was_there(encoder, bank):
    none = train_relevance(Bank(bank.tools))
    part = DescriptionOdds().fit(bank.tools[:-1], none, encoder)
    before = part.log_odds(["be quiet"], encoder)
    grown = part.extended(bank.tools[-1:], encoder)
    odds = grown.log_odds([bank.tools[-1].summary], encoder)
    assert odds.argmax() == len(bank.tools) - 1
    np.testing.assert_array_equal(part.log_odds(["be quiet"], encoder), before)


def test_the_scale_is_that_of_a_logistic_regression():
    random = np.random.default_rng(0)
    values = random.normal(0.2, 0.2, 20_000)
    holds = random.random(20_000) < 1 / (1 + np.exp(5 - 12 * values))
    library = LogisticRegression(C=np.inf, tol=1e-8).fit(values[:, None], holds)
    expected = [library.coef_[0, 0], library.intercept_[0]]
    np.testing.assert_allclose(make_scale(values, holds), expected, rtol=2e-3)


@pytest.mark.parametrize(
    ("values", "holds"),
    [([], []), ([0.5, 0.1], [True, False]), ([0.5, 0.1], [True, True]), ([1], [False])],
)
def test_with_few_examples_or_none_the_scale_rises_and_is_finite(values, holds):
    slope, intercept = make_scale(values, np.array(holds, bool))
    assert 1 < slope < 100
    assert np.isfinite(intercept)


@pytest.mark.parametrize("n_tools", [12, 150])
def test_with_one_query_per_tool_a_high_score_still_means_a_needed_tool(n_tools):
    scores = np.random.default_rng(n_tools).normal(0.1, 0.1, (n_tools, n_tools))
    uses = np.arange(n_tools)[:, None]
    described = DescriptionOdds()
    described.fit_scale(
        scores.astype(np.float32), uses, unseen_without(uses, n_tools)(slice(None))
    )
    slope, intercept = described.scale
    odds = slope * scores + intercept
    # About one tool per query is needed, and the one of the best score most of all.
    assert 0.3 * n_tools < (1 / (1 + np.exp(-odds))).sum() < 3 * n_tools
    assert np.median(odds.max(axis=1)) > -2


def test_an_unseen_tool_has_the_score_of_its_log_odds(described, encoder):
    described.scale = np.array([8.0, -3.0])
    scores = np.array([[0.5, 0.25, 0.1, 0, 0, 0]], np.float32)
    unseen = np.array([[False, True, False, False, False, True]])
    placed = described.place(scores, unseen, ["a song"], encoder)
    odds = described.log_odds(["a song"], encoder)
    np.testing.assert_allclose(placed[unseen] * 8 - 3, odds[unseen], atol=1e-4)
    np.testing.assert_array_equal(placed[~unseen], scores[~unseen])


def test_without_its_only_query_a_tool_is_unseen():
    uses = np.array([[0, 1], [1, -1], [2, -1]])
    assert unseen_without(uses, 4)(slice(None)).tolist() == [
        [True, False, False, True],
        [False, False, False, True],
        [False, False, True, True],
    ]


@pytest.mark.parametrize("n_queries", [0, 1, 10, 5_000_000])
def test_no_more_pairs_are_taken_than_needed(n_queries):
    rows = spread_rows(n_queries, 1000)
    assert len(rows) == min(n_queries, 2000)
    assert len(set(rows.tolist())) == len(rows)


def test_an_index_of_other_texts_is_refused(described, tmp_path):
    described.save_state(tmp_path)
    LexicalIndex.of(["one", "two"]).save_state(tmp_path / "words")
    with pytest.raises(InputError, match=r"words: damaged .*of other texts"):
        DescriptionOdds().load_state(tmp_path, {})
