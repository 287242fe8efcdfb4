"""Scores of unseen tools are brought to those of used ones with the same odds."""

import numpy as np
import pytest

from toolbank.retrievers.unseen.alignment import (
    AS_IT_IS,
    align,
    fit_alignment,
    unseen_without,
)
from toolbank.retrievers.unseen.platt import spread_rows


def test_equal_odds_get_equal_scores():
    random = np.random.default_rng(0)
    n, m = 2000, 20
    odds = random.normal(-2, 2, size=(n, m))
    needed = random.random((n, m)) < 1 / (1 + np.exp(-odds))
    uses = np.full((n, m), -1)
    for row, holds in zip(uses, needed, strict=True):
        tools = np.flatnonzero(holds)
        row[: len(tools)] = tools
    # Of the same odds one kind of score is a tenth plus a half, the other a twentieth.
    scores, described = odds / 10 + 0.5, odds / 20
    slope, intercept = fit_alignment(scores, described, uses, np.zeros((n, m), bool))
    np.testing.assert_allclose([slope, intercept], [2, 0.5], atol=0.05)


def test_without_a_used_tool_scores_stay():
    uses = np.zeros((0, 0), np.int64)
    nothing = np.zeros((0, 3), np.float32)
    unseen = unseen_without(uses, 3)(slice(None))
    assert fit_alignment(nothing, nothing, uses, unseen) is AS_IT_IS


def test_only_unseen_tools_are_moved():
    scores = np.array([[0.5, 0.25]], np.float32)
    unseen = np.array([[False, True]])
    moved = align(scores, scores, unseen, np.array([2.0, 0.125]))
    assert moved.tolist() == [[0.5, 0.625]]


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
