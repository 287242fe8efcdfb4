import numpy as np
import pytest

from toolbank.bank.bank import Bank
from toolbank.bank.ranking import top_k
from toolbank.bank.records import Tool
from toolbank.retrievers.base import FitContext, Retriever
from toolbank.retrievers.settings import Bm25Config, FusionConfig
from toolbank.retrievers.two_stage import FusionRetriever, standardise

BANK = Bank(tuple(Tool(name=name) for name in "abcd"))


class Fixed(Retriever):
    """Gives every request the same scores; a tool at 0 is no hit."""

    def __init__(self, *scores):
        super().__init__(Bm25Config())
        self.tools, self.scores = BANK.tool_names, np.array(scores, np.float32)

    def fit(self, bank, context=None):
        raise NotImplementedError

    extend = fit

    def search(self, queries, k):
        indices, scores = top_k(np.tile(self.scores, (len(queries), 1)), k)
        found = scores > 0
        return np.where(found, indices, -1), np.where(found, scores, -np.inf)


def fuse(first, second, **settings):
    config = FusionConfig(first_stage="one", beside=("two",), **settings)
    fused = FusionRetriever(config)
    fused.fit(BANK, FitContext(fitted={"one": first, "two": second}))
    return fused


LOW, HIGH = -1 / np.sqrt(2), np.sqrt(2)


@pytest.mark.parametrize(
    ("indices", "scores", "expected"),
    [
        ([2, 0], [9.0, 5.0], [-1, -1, 1, -1]),
        # Where fewer fit than were asked for, the others stand at nothing.
        ([1, -1, -1], [6.0, -np.inf, -np.inf], [LOW, HIGH, LOW]),
    ],
)
def test_scores_become_standard_deviations(indices, scores, expected):
    hits = np.array([indices]), np.array([scores], np.float32)
    np.testing.assert_allclose(standardise(hits, len(expected)), [expected], atol=1e-6)


@pytest.mark.parametrize("scale", [1, 1000])
def test_what_both_find_goes_before_what_one_does_whatever_their_scales(scale):
    first = Fixed(*(scale * np.array([0.9, 0.8, 0.1, 0.1])))
    second = Fixed(3, 20, 1, 21)
    indices, scores = fuse(first, second).search(["x"], 4)
    assert indices[0, 0] == 1
    expected = [standardise(one.search(["x"], 4), 4) for one in (first, second)]
    by_hand = np.mean(expected, axis=0)[0]
    np.testing.assert_allclose(scores[0], np.sort(by_hand)[::-1], atol=1e-5)


def test_a_tool_that_none_finds_is_no_hit():
    indices, scores = fuse(Fixed(1, 0, 0, 0), Fixed(0, 2, 0, 0)).search(["x"], 4)
    assert sorted(indices[0].tolist()) == [-1, -1, 0, 1]
    assert np.isinf(scores[0, 2:]).all()


def test_what_is_past_the_first_hits_of_each_comes_last_and_moves_nothing():
    fused = fuse(Fixed(4, 3, 2, 0), Fixed(3, 4, 1, 0), candidates=2)
    indices, scores = fused.search(["x"], 4)
    assert sorted(indices[0, :2].tolist()) == [0, 1]
    assert indices[0, 2:].tolist() == [2, -1]
    assert scores[0, 2] < scores[0, 1]
    few = fused.search(["x"], 2)
    np.testing.assert_array_equal(few[0], indices[:, :2])
    np.testing.assert_array_equal(few[1], scores[:, :2])
