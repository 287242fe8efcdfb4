"""The expected calibration error, by hand and by its bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbank.retrievers.calibration_fit import measure_reliability


def test_the_error_of_a_worked_example():
    chances = np.array([0.15, 0.05, 0.95, 0.95, 0.55, 0.55])
    holds = np.array([0, 0, 1, 0, 1, 1], bool)
    found = measure_reliability(chances, holds)
    # Bins: .05 held 0; .15 held 0; .55 held 1 of 1, twice; .95 held half.
    wanted = (0.05 + 0.15 + 2 * 0.45 + 2 * 0.45) / 6
    assert found.error == pytest.approx(wanted)
    assert found.counts.tolist() == [1, 1, 2, 2]


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=50))
def test_the_error_is_a_distance_of_shares(pairs):
    chances = np.array([chance for chance, _ in pairs], float)
    holds = np.array([held for _, held in pairs], bool)
    found = measure_reliability(chances, holds)
    assert 0 <= found.error <= 1
    assert found.counts.sum() == len(pairs)
    assert measure_reliability(holds.astype(float), holds).error == 0
