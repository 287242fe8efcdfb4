import numpy as np
import pytest

from toolbank.retrievers.refiner import first_stage_features, fit_log_odds
from toolbank.retrievers.refiner.network import search_rows, train_rows
from toolbank.retrievers.relevance import Relevance


def test_features_are_the_same_in_any_units_and_equal_scores_differ_by_rank():
    scores = np.array([[0.9, 0.5, 0.1], [3.0, 2.0, -4.0]], np.float32)
    features = first_stage_features(scores)
    np.testing.assert_allclose(features[..., 1], [[1, 1 / 2, 1 / 3]] * 2, rtol=1e-6)
    np.testing.assert_allclose(features[0, :, 0], [1.2247, 0, -1.2247], atol=1e-3)
    scaled = first_stage_features(7 * scores + 3)
    np.testing.assert_allclose(scaled, features, atol=1e-4)
    features = first_stage_features(np.ones((1, 3), np.float32))
    assert features[0, :, 0].tolist() == [0, 0, 0]
    assert first_stage_features(np.zeros((0, 3), np.float32)).shape == (0, 3, 2)


def test_where_there_are_fewer_candidates_the_features_are_those_of_these():
    scores = np.array([[0.9, 0.5, 0.1], [0.9, 0.5, -np.inf]], np.float32)
    three = np.concatenate([scores, [[-np.inf] * 3]], dtype=np.float32)
    features = first_stage_features(three)
    assert features[0].tolist() == first_stage_features(scores[:1])[0].tolist()
    assert features[1, :2].tolist() == first_stage_features(scores[1:, :2])[0].tolist()
    assert not features[1, 2:].any()
    assert not features[2].any()


@pytest.mark.parametrize("labels", [(True, False, False), (False, False, True), ()])
def test_the_first_stages_order_stays_whatever_the_labels(labels):
    features = first_stage_features(np.array([[0.9, 0.5, 0.1]], np.float32))[0]
    n = len(labels)
    slopes, intercept = fit_log_odds(features[:n], np.array(labels, np.bool_))
    assert (slopes > 0).all()
    assert np.isfinite([*slopes, intercept]).all()


def test_where_a_slope_is_held_the_others_are_fitted_beside_it():
    random = np.random.default_rng(0)
    features = random.normal(1, 1, size=(4000, 5, 2)).astype(np.float32)
    # The first stage's scores are the wrong way round.
    odds = features @ np.array([-1.0, 1.5]) - 1
    labels = random.random(odds.shape) < 1 / (1 + np.exp(-odds))
    slopes, intercept = fit_log_odds(features.reshape(-1, 2), labels.ravel())
    assert slopes[0] == pytest.approx(0.1)
    chances = 1 / (1 + np.exp(-(features @ slopes + intercept)))
    assert chances.mean() == pytest.approx(labels.mean(), rel=1e-3)


N_TOOLS, D = 9, 4
VECTORS = np.arange(N_TOOLS * D, dtype=np.float32).reshape(N_TOOLS, D)


def make_rows(hits, own_tools, own=None):
    indices = np.array(hits, dtype=np.int64)
    own_tools = np.array(own_tools, dtype=np.int64)
    falling = -np.arange(indices.shape[1], dtype=np.float32)
    scores = np.broadcast_to(falling, indices.shape)
    return train_rows(
        search_rows([[1, 2]] * len(indices), (indices, scores), VECTORS),
        Relevance(
            [""] * len(indices),
            own_tools,
            np.ones(len(indices)),
            np.zeros((len(indices), 0), np.int64),
        ),
        own=np.zeros((*own_tools.shape, D), np.float32) if own is None else own,
    )


def test_a_querys_own_tools_have_vectors_made_without_it():
    own = -np.arange(2 * 3 * D, dtype=np.float32).reshape(2, 3, D) - 1
    rows = make_rows([[5, 2, 0], [0, 8, 5]], [[0, 5, -1], [8, -1, -1]], own)
    for row, expected in (
        (0, [own[0, 1], VECTORS[2], own[0, 0]]),
        (1, [VECTORS[0], own[1, 0], VECTORS[5]]),
    ):
        np.testing.assert_array_equal(rows[row]["vectors"], expected)


def test_every_gold_tool_is_a_label_of_its_own():
    rows = make_rows([[7, 1, 6, 2], [1, 2, 3, 4]], [[6, 7, -1], [4, 8, -1]])
    assert rows.candidates.tolist() == [[7, 1, 6, 2], [1, 2, 3, 4]]
    assert rows[0]["labels"].tolist() == [True, False, True, False]
    # Tool 8 was missed: no label stands for it, and padding is no tool.
    assert rows[1]["labels"].tolist() == [False, False, False, True]
