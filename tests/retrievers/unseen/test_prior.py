"""Unseen tools: their descriptions' cosines are chances that can be believed."""

import re

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from tests.tiny_models import tiny_encoder
from toolbank.bank.bank import Bank
from toolbank.bank.records import Tool
from toolbank.encoders.config import EncoderConfig
from toolbank.retrievers.relevance import train_relevance
from toolbank.retrievers.unseen.platt import fit_line
from toolbank.retrievers.unseen.prior import DescriptionPrior
from toolbank.system.errors import InputError


@pytest.fixture(scope="module")
def encoder(bank, tmp_path_factory):
    words = " ".join(f"{tool.name} {tool.summary}" for tool in bank.tools).lower()
    folder = tiny_encoder(
        tmp_path_factory.mktemp("encoder"), words=sorted(set(re.findall(r"\w+", words)))
    )
    return EncoderConfig(model=str(folder))


@pytest.fixture
def prior(encoder, bank):
    return DescriptionPrior(encoder).fit(bank.tools, train_relevance(bank))


def test_the_line_is_that_of_a_logistic_regression():
    random = np.random.default_rng(0)
    values = random.normal(0.2, 0.2, 20_000)
    holds = random.random(20_000) < 1 / (1 + np.exp(5 - 12 * values))
    library = LogisticRegression(C=np.inf, tol=1e-8).fit(values[:, None], holds)
    expected = [library.coef_[0, 0], library.intercept_[0]]
    np.testing.assert_allclose(fit_line(values, holds), expected, rtol=2e-3)


def test_chances_are_as_many_as_hold():
    random = np.random.default_rng(1)
    values = random.random(20_000)
    holds = random.random(20_000) < 0.02
    slope, intercept = fit_line(values, holds)
    chances = 1 / (1 + np.exp(-(slope * values + intercept)))
    assert chances.mean() == pytest.approx(holds.mean(), rel=0.1)


@pytest.mark.parametrize(
    ("values", "holds"),
    [([], []), ([0.5, 0.1], [True, False]), ([0.5, 0.1], [True, True]), ([1], [False])],
)
def test_with_few_examples_or_none_the_line_rises_and_is_finite(values, holds):
    slope, intercept = fit_line(np.array(values, float), np.array(holds, bool))
    assert 1 < slope < 100
    assert np.isfinite(intercept)


def test_a_nearer_description_is_never_the_less_likely_one():
    values = np.linspace(0, 1, 10_000)
    slope, intercept = fit_line(values, values < 0.3)
    assert slope > 0
    chances = 1 / (1 + np.exp(-(slope * values + intercept)))
    assert chances.mean() == pytest.approx(0.3, rel=0.01)


def test_a_tool_is_found_by_the_words_of_its_description(prior, bank):
    summaries = [tool.summary for tool in bank.tools]
    best = prior.log_odds(summaries).argmax(axis=1)
    assert best.tolist() == list(range(len(bank.tools)))


def test_some_tools_have_the_log_odds_that_they_have_among_all(prior):
    some = np.array([4, 1])
    np.testing.assert_array_equal(
        prior.log_odds(["any song"], some), prior.log_odds(["any song"])[:, some]
    )


def test_an_added_tool_is_as_one_that_was_there(encoder, bank):
    relevance = train_relevance(bank)
    part = DescriptionPrior(encoder).fit(
        bank.tools[:-1], train_relevance(Bank(bank.tools[:-1]))
    )
    before = part.log_odds(["be quiet"])
    part.extend(bank.tools[-1:])
    after = part.log_odds(["be quiet"])
    np.testing.assert_array_equal(after[:, :-1], before)
    assert part.log_odds([bank.tools[-1].summary]).argmax() == len(bank.tools) - 1
    assert len(DescriptionPrior(encoder).fit(bank.tools, relevance).vectors) == len(
        part.vectors
    )


def test_tools_that_read_alike_have_the_same_log_odds(encoder, bank):
    twins = [Tool(name="x", kind="function", summary="Same.") for _ in range(5)]
    prior = DescriptionPrior(encoder).fit(twins, train_relevance(Bank(tuple(twins))))
    assert len(set(prior.log_odds(["the same"])[0].tolist())) == 1


def test_saved_it_comes_back(prior, encoder, bank, tmp_path):
    prior.save_state(tmp_path)
    again = DescriptionPrior(encoder)
    again.load_state(tmp_path, {"tools": len(bank.tools)})
    np.testing.assert_array_equal(
        again.log_odds(["a song"]), prior.log_odds(["a song"])
    )
    with pytest.raises(InputError, match=r"vectors is \[6, 32\], expected \[3, "):
        again.load_state(tmp_path, {"tools": 3})
