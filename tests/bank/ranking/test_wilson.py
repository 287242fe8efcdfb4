"""Wilson's interval is that of a library."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from toolbank.bank.ranking import wilson_interval


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_interval_is_scipys_wilson(case):
    count, n = case
    expected = binomtest(count, n).proportion_ci(0.95, method="wilson")
    assert wilson_interval(count, n) == pytest.approx(expected, abs=1e-12)
