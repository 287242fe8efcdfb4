import numpy as np
import pytest

from toolbank.papers.instructions.experiment import (
    cluster_figures,
    pair_figures,
    purity,
)


def test_tasks_that_lie_apart_are_told_apart():
    vectors = np.repeat(np.eye(3, dtype=np.float32), 4, axis=0)
    vectors += np.random.default_rng(0).normal(0, 0.01, vectors.shape)
    found = cluster_figures(vectors, list("aaaabbbbcccc"), seed=0)
    assert found["ari"] == found["purity"] == pytest.approx(1)
    assert found["homogeneity"] == pytest.approx(1)
    assert 0.9 < found["silhouette"] < 1


def test_purity_and_labels_that_say_nothing_of_the_clusters():
    assert purity(list("aabbb"), [0, 0, 0, 1, 1]) == 4 / 5
    assert purity(list("abc"), [0, 0, 0]) == 1 / 3
    vectors = np.repeat(np.eye(2, dtype=np.float32), 2, axis=0)
    found = cluster_figures(vectors, list("abab"), seed=0)
    # All four agreements of pairs are by chance, or fewer: (0 - 2/3) / (2 - 2/3).
    assert found["ari"] == pytest.approx(-0.5)
    assert found["purity"] == 0.5
    assert found["homogeneity"] == pytest.approx(0)


def test_pairs_in_perfect_order_come_to_what_their_labels_allow():
    angles = np.array([0.1, 0.2, 1.0, 1.1, 1.2])
    left = np.tile(np.array([1, 0], np.float32), (5, 1))
    right = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    found = pair_figures(left, right, [1, 1, 0, 0, 0])
    # Ranks 5 4 3 2 1 with 4.5 4.5 2 2 2: covariance 7.5 / sqrt(10 * 7.5).
    assert found["spearman"] == found["most"] == pytest.approx(7.5 / 75**0.5)
    assert found["auc"] == 1
    turned = pair_figures(left, right, [0, 0, 1, 1, 1])
    assert turned["auc"] == 0
    assert turned["spearman"] == pytest.approx(-found["spearman"])
