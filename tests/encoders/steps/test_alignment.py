import numpy as np
import pytest

from toolbank.requests.quality.texts import faithfulness

EAST, NORTH, WEST = ([1.0, 0.0], [0.0, 1.0], [-1.0, 0.0])


@pytest.mark.parametrize(
    ("steps", "source", "expected"),
    [
        ([EAST], [EAST, NORTH], 1.0),
        ([WEST], [EAST, NORTH], 0.5),
        ([NORTH], [EAST], 0.5),
        ([WEST], [EAST], 0.0),
        ([EAST, NORTH, WEST], [EAST, NORTH], 2.5 / 3),
    ],
)
def test_it_is_the_mean_nearness_of_steps_to_sentences(steps, source, expected):
    found = faithfulness(np.array(steps, np.float32), np.array(source, np.float32))
    assert found == pytest.approx(expected)
