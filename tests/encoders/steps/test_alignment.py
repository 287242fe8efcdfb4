import numpy as np
import pytest

from toolbank.requests.write.explanations import faithfulness

EAST, NORTH, WEST = ([1.0, 0.0], [0.0, 1.0], [-1.0, 0.0])


@pytest.mark.parametrize(
    ("step", "source", "expected"),
    [
        (EAST, [EAST, NORTH], 1.0),
        (WEST, [EAST, NORTH], 0.5),
        (NORTH, [EAST], 0.5),
        (WEST, [EAST], 0.0),
    ],
)
def test_a_step_is_aligned_with_the_nearest_sentence(step, source, expected):
    steps, sentences = np.array([step], np.float32), np.array(source, np.float32)
    assert faithfulness(steps, sentences) == pytest.approx(expected)


def test_faithfulness_is_the_mean_over_the_steps():
    steps = np.array([EAST, NORTH, WEST], np.float32)
    source = np.array([EAST, NORTH], np.float32)
    assert faithfulness(steps, source) == pytest.approx(2.5 / 3)
