"""Differences of two banks: against SciPy's intervals, and as a reader takes them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from toolbank.evaluation.paired_figures import (
    FigureKind,
    Measure,
    PairedFigure,
    compare_ratios,
    compare_sets,
    correct,
)

SHARE = FigureKind("Wording", "in the tools' words", "share", "lower")
NUMBER = FigureKind("Variety", "distinct-2", "number", "higher")


def sums(values):
    return np.stack([values, np.ones(len(values))], axis=1)


def mean_of(values):
    return lambda rows: float(values[rows].mean())


@pytest.mark.parametrize("paired", [True, False])
def test_means_have_the_intervals_of_scipy(paired):
    random = np.random.default_rng(0)
    a = random.normal(10, 3, 60)
    b = a + random.normal(1, 1, 60)
    [found] = compare_ratios([Measure(NUMBER, sums(a), sums(b))], 0, paired=paired)
    ends = stats.bootstrap(
        (b, a),
        lambda b, a, axis: b.mean(axis) - a.mean(axis),
        paired=paired,
        method="percentile",
        rng=0,
    ).confidence_interval
    assert found.difference == pytest.approx(b.mean() - a.mean())
    assert (found.low, found.high) == pytest.approx(tuple(ends), abs=0.08)
    # The pairs know what the two sets by themselves do not.
    assert (found.p < 0.01) == paired


@pytest.mark.parametrize("paired", [True, False])
def test_the_jackknife_of_a_mean_is_the_t_test(paired):
    random = np.random.default_rng(1)
    a = random.normal(0, 1, 50)
    b = random.normal(0.4, 1, 50)
    measure = Measure(NUMBER, mean_of(a), mean_of(b))
    [found] = compare_sets([measure], 50, paired=paired)
    if paired:
        test = stats.ttest_rel(b, a)
        assert found.p == pytest.approx(test.pvalue)
        assert (found.low, found.high) == pytest.approx(test.confidence_interval())
    error = np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 50)
    if not paired:
        assert found.high - found.difference == pytest.approx(
            stats.t.ppf(0.975, 49) * error
        )


def test_many_units_have_the_interval_of_the_normal_distribution():
    a, b = np.random.default_rng(2).normal(0, 1, (2, 5000))
    [found] = compare_ratios([Measure(NUMBER, sums(a), sums(b))], 0, paired=False)
    error = np.sqrt((a.var() + b.var()) / 5000)
    assert found.high - found.difference == pytest.approx(1.96 * error, rel=0.06)


def test_a_ratio_counts_only_units_that_have_a_request():
    a = np.array([[1.0, 1]] * 20 + [[0, 0]] * 20)
    b = np.array([[0.0, 1]] * 10 + [[1, 1]] * 30)
    [found] = compare_ratios([Measure(SHARE, a, b)], 0, paired=True)
    assert (found.a, found.b) == (1, 0.75)


def test_a_share_that_never_occurs_may_occur_elsewhere():
    never = sums(np.zeros(30))
    [found] = compare_ratios([Measure(SHARE, never, never)], 0, paired=True)
    assert found.low < 0 == found.difference < found.high
    assert found.p == 1


@pytest.mark.parametrize("n", [1, 9])
def test_few_units_have_no_interval(n):
    few = sums(np.ones(n))
    [ratio] = compare_ratios([Measure(SHARE, few, few)], 0, paired=True)
    [of_set] = compare_sets([Measure(SHARE, len, len)], n, paired=True)
    assert [(one.low, one.high, one.p) for one in (ratio, of_set)] == [(None,) * 3] * 2


@given(st.integers(0, 2**32), st.booleans())
def test_two_draws_of_one_vocabulary_are_as_varied(seed, paired):
    words = np.random.default_rng(seed).integers(0, 400, (2, 40, 10))
    a, b = (
        lambda rows, of=of: len(np.unique(of[rows])) / of[rows].size for of in words
    )
    [found] = compare_sets([Measure(NUMBER, a, b)], 40, paired=paired)
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
