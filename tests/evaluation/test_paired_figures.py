"""Differences of two banks: against SciPy's intervals, and as a reader takes them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from toolbank.evaluation.paired_figures import (
    FigureKind,
    PairedFigure,
    compare_figure,
    correct,
    ratio_of,
)

SHARE = FigureKind("Wording", "in the tools' words", "share", "lower")
NUMBER = FigureKind("Variety", "distinct-2", "number", "higher")


def sums(values):
    return np.stack([values, np.ones(len(values))], axis=1)


@pytest.mark.parametrize("paired", [True, False])
def test_the_jackknife_of_a_mean_is_the_t_test(paired):
    a, b = np.random.default_rng(1).normal(((0,), (0.4,)), 1, (2, 50))
    of_a, of_b = ratio_of(sums(a)), ratio_of(sums(b))
    found = compare_figure(NUMBER, of_a, of_b, (50, 50), paired=paired)
    if paired:
        test = stats.ttest_rel(b, a)
        assert found.p == pytest.approx(test.pvalue)
        assert (found.low, found.high) == pytest.approx(test.confidence_interval())
    else:
        error = np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 50)
        wide = stats.t.ppf(0.975, 49) * error
        assert found.high - found.difference == pytest.approx(wide)


@pytest.mark.parametrize("paired", [True, False])
def test_ratios_have_the_intervals_of_a_bootstrap(paired):
    random = np.random.default_rng(0)
    a, b = (
        np.stack([random.exponential(size, 700), random.integers(0, 3, 700)], axis=1)
        for size in (2, 2.2)
    )
    of = [ratio_of(one) for one in (a, b)]
    found = compare_figure(NUMBER, *of, (700, 700), paired=paired)
    theirs = stats.bootstrap(
        (np.arange(700), np.arange(700)),
        lambda x, y, axis: (
            b[y, 0].sum(axis) / b[y, 1].sum(axis)
            - a[x, 0].sum(axis) / a[x, 1].sum(axis)
        ),
        paired=paired,
        n_resamples=2000,
        method="percentile",
        rng=0,
    ).confidence_interval
    assert found.high - found.low == pytest.approx(np.ptp(theirs), rel=0.2)


def test_a_ratio_counts_only_units_that_have_a_request():
    a = np.array([[1.0, 1]] * 20 + [[0, 0]] * 20)
    b = np.array([[0.0, 1]] * 10 + [[1, 1]] * 30)
    found = compare_figure(SHARE, ratio_of(a), ratio_of(b), (40, 40), paired=True)
    assert (found.a, found.b) == (1, 0.75)


@pytest.mark.parametrize("a, b", [(0, 0), (1, 1), (0, 1), (1, 0)])
def test_shares_of_none_and_all_are_no_surer_than_their_number(a, b):
    of_a, of_b = (ratio_of(sums(np.full(20, one))) for one in (a, b))
    found = compare_figure(SHARE, of_a, of_b, (20, 20), paired=True)
    assert found.p == pytest.approx(stats.binomtest(20, 20).pvalue if a != b else 1)
    assert found.high - found.low > 0.1
    assert -1 <= found.low <= found.difference <= found.high <= 1
    assert (found.low > 0 or found.high < 0) == (a != b)


def test_a_figure_that_no_unit_changes_has_no_interval():
    found = compare_figure(SHARE, lambda _: 0.5, lambda _: 1, (20, 20), paired=True)
    assert (found.difference, found.low, found.p) == (0.5, None, None)


@pytest.mark.parametrize("n", [0, 1, 9])
def test_few_units_have_no_interval(n):
    few = ratio_of(sums(np.arange(n)))
    found = compare_figure(SHARE, few, few, (n, n), paired=True)
    assert (found.low, found.high, found.p) == (None, None, None)


@given(st.integers(0, 2**32), st.booleans())
def test_two_draws_of_one_vocabulary_are_as_varied(seed, paired):
    words = np.random.default_rng(seed).integers(0, 400, (2, 40, 10))
    a, b = (
        lambda rows, of=of: len(np.unique(of[rows])) / of[rows].size for of in words
    )
    found = compare_figure(NUMBER, a, b, (40, 40), paired=paired)
    # At 99.99 %, since hypothesis looks for the exceptions.
    wide = 4.4 / stats.t.ppf(0.975, 39) * (found.high - found.difference)
    assert abs(found.difference) <= wide


def test_only_what_holds_after_the_correction_has_a_winner():
    def figure(difference, p, kind=SHARE):
        ends = (difference - 0.05, difference + 0.05)
        return PairedFigure(kind, 0.5, 0.5 + difference, 100, *ends, p)

    neutral = FigureKind("Wording", "words per request", "number", "")
    sure, unsure, other = (
        figure(-0.2, 0.001),
        figure(-0.2, 0.03),
        figure(0.2, 0.002, neutral),
    )
    missing = PairedFigure(SHARE, 1.0, None, 3)
    found = correct([sure, unsure, other, figure(0.01, 0.9), missing])
    assert [one.adjusted for one in found] == pytest.approx(
        [0.004, 0.06, 0.006, 0.9, None]
    )
    assert [one.holds for one in found] == [True, False, True, False, False]
    assert [one.winner for one in found] == ["B", "", "", "", ""]
