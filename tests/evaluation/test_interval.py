import numpy as np
import pytest
from scipy.stats import binomtest

from toolbank.evaluation.figures import (
    FEWEST,
    bootstrap_means,
    difference_intervals,
    mean_intervals,
)


def of_means(*columns, seed=0):
    return mean_intervals(np.array(columns, dtype=float).T, 400, seed)


def of_differences(column):
    return difference_intervals(np.array([column], dtype=float).T, 400, 0)[0]


@pytest.mark.parametrize("n", [1, 2, FEWEST - 1])
def test_of_too_few_requests_there_is_none(n):
    assert of_means([1.0] * n, [0.5] * n) == [(None, None)] * 2
    assert of_differences([0.0] * n) == (None, None)


@pytest.mark.parametrize("found", [0, 1, 7, 19, 20])
def test_of_right_and_wrong_it_is_the_binomial_one_of_a_library(found):
    [interval] = of_means([1.0] * found + [0.0] * (20 - found))
    expected = binomtest(found, 20).proportion_ci(0.95, method="wilson")
    assert interval == pytest.approx(expected)


def test_an_interval_is_no_surer_than_what_was_seen():
    [(low, high), (low_of_ones, _)] = of_means([1.0] * 19 + [0.5], [1.0] * 20)
    assert low < low_of_ones
    assert 0.975 < high <= 1
    # By hand: 1.96^2 / (60 + 1.96^2) = 0.0602.
    assert of_differences([0.0] * 60) == pytest.approx((-0.0602, 0.0602), abs=1e-4)
    low, high = of_differences([1.0] * 60)
    assert (low, high) == pytest.approx((1 - 2 * 0.0602, 1), abs=1e-4)


@pytest.mark.parametrize("mean", [0.03, 0.3, 0.97])
def test_it_holds_the_truth_nineteen_times_in_twenty_or_nearly(mean):
    random = np.random.default_rng(11)
    sides = {0.03: (0.94, 0.06, 0), 0.3: (0.5, 0.4, 0.1), 0.97: (0, 0.06, 0.94)}[mean]
    columns = random.choice([0, 0.5, 1], (400, 40), p=sides)
    intervals = of_means(*columns)
    held = sum(low <= mean <= high for low, high in intervals)
    bootstrapped = bootstrap_means(columns.T, 400, 0)
    held_by_bootstrap = sum(
        low <= mean <= high for low, high in zip(*bootstrapped, strict=True)
    )
    assert held >= 0.9 * 400
    assert held >= held_by_bootstrap


def test_the_same_seed_gives_the_same_interval_in_any_blocks(monkeypatch):
    values = np.random.default_rng(0).random((50, 2))
    again = bootstrap_means(values, 500, seed=3)
    np.testing.assert_array_equal(bootstrap_means(values, 500, seed=3), again)
    assert not np.array_equal(bootstrap_means(values, 500, seed=4), again)
    bootstrap_means(values, 500, seed=-1)
    values = np.ones((30, 1))
    monkeypatch.setattr("toolbank.evaluation.figures._BLOCK_DRAWS", 70)
    low, high = bootstrap_means(values, 100, seed=0)
    assert low.tolist() == high.tolist() == [1.0]


def test_of_values_of_all_kinds_it_is_the_bootstrap_as_wide_as_is_normal():
    values = np.random.default_rng(3).choice([0, 1 / 3, 0.5, 1], (60, 2))
    low, high = bootstrap_means(values, 400, 7)
    assert mean_intervals(values, 400, 7) == list(zip(low, high, strict=True))
    differences = values[:, :1] - values[:, 1:]
    low, high = bootstrap_means(differences, 400, 7)
    assert difference_intervals(differences, 400, 7) == [(low[0], high[0])]
    values = np.random.default_rng(1).random((400, 1))
    low, high = bootstrap_means(values, 4000, seed=0)
    spread = 1.96 * values.std() / np.sqrt(len(values))
    assert low[0] == pytest.approx(values.mean() - spread, abs=0.1 * spread)
    assert high[0] == pytest.approx(values.mean() + spread, abs=0.1 * spread)
