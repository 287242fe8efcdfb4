"""Step alignment by hand-made vectors."""

import numpy as np
import pytest

from toolbank.requests.write.explanations import align, faithfulness

EAST, NORTH, WEST = ([1.0, 0.0], [0.0, 1.0], [-1.0, 0.0])


def test_a_step_is_aligned_with_the_nearest_sentence():
    steps = np.array([EAST, NORTH, WEST], np.float32)
    source = np.array([EAST, NORTH], np.float32)
    assert align(steps, source).tolist() == [1.0, 1.0, 0.5]
    assert align(steps, source[:1]).tolist() == [1.0, 0.5, 0.0]
    assert faithfulness(steps, source) == pytest.approx(2.5 / 3)
