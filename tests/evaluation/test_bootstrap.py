"""Intervals hold the mean, repeat with their seed, and narrow with more queries."""

import numpy as np
import pytest

from toolbank.evaluation.figures import bootstrap_means


def test_the_same_seed_gives_the_same_interval():
    values = np.random.default_rng(0).random((50, 2))
    again = bootstrap_means(values, 500, seed=3)
    np.testing.assert_array_equal(bootstrap_means(values, 500, seed=3), again)
    assert not np.array_equal(bootstrap_means(values, 500, seed=4), again)
    bootstrap_means(values, 500, seed=-1)


def test_blocks_change_nothing_of_what_is_counted(monkeypatch):
    values = np.ones((30, 1))
    monkeypatch.setattr("toolbank.evaluation.figures._BLOCK_DRAWS", 70)
    low, high = bootstrap_means(values, 100, seed=0)
    assert low.tolist() == high.tolist() == [1.0]


def test_it_is_as_wide_as_the_normal_approximation_says():
    values = np.random.default_rng(1).random((400, 1))
    low, high = bootstrap_means(values, 4000, seed=0)
    spread = 1.96 * values.std() / np.sqrt(len(values))
    assert low[0] == pytest.approx(values.mean() - spread, abs=0.1 * spread)
    assert high[0] == pytest.approx(values.mean() + spread, abs=0.1 * spread)
