from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.requests.quality.banks import bank
from toolbank.requests.quality.measure import (
    draw_lorenz,
    measure_coverage,
    measure_gini,
    measure_sets,
)
from toolbank.requests.quality.texts import make_requests, make_tools

USES = st.lists(st.integers(0, 50), min_size=1, max_size=40).filter(any)


def by_definition(uses):
    """Half the mean absolute difference of all pairs, over the mean."""
    differences = [abs(a - b) for a in uses for b in uses]
    return sum(differences) / len(uses) ** 2 / 2 / (sum(uses) / len(uses))


@given(USES)
def test_gini_is_what_its_definition_says_whatever_the_order(uses):
    found = measure_gini(pl.Series(uses))
    assert found == pytest.approx(by_definition(uses), abs=1e-9)
    assert 0 <= found <= 1 - 1 / len(uses) + 1e-9
    assert found == measure_gini(pl.Series(sorted(uses)))
    assert found == pytest.approx(measure_gini(pl.Series([3 * n for n in uses])))


@given(USES)
def test_lorenz_rises_below_the_diagonal_and_leaves_out_what_gini_says(uses):
    steps = len(uses)
    shares = draw_lorenz(pl.Series(uses), steps)
    assert shares[0] == 0
    assert shares[-1] == pytest.approx(1)
    assert list(shares) == sorted(shares)
    assert all(s <= n / steps + 1e-9 for n, s in enumerate(shares))
    area = sum((a + b) / 2 for a, b in pairwise(shares)) / steps
    assert 1 - 2 * area == pytest.approx(measure_gini(pl.Series(uses)), abs=1e-9)


def test_coverage_by_hand():
    shop = bank(
        ("a", ["shop.sum", "shop.find_order"]),
        ("b", ["shop.sum", "shop.undo", "shop.cancelOrder"]),
        ("c", ["shop.sum", "not.there"]),
    )
    found = measure_coverage(make_requests(shop), make_tools(shop))
    # find_order 1, sum 3, cancelOrder 1 (its alias is the same tool), weigh 0.
    assert found.tools == 4
    assert found.used == {1: 0.75, 2: 0.25, 5: 0, 10: 0, 20: 0}
    # Pairs differ by 1, 1, 3, 2, 2, 0: their mean over ordered pairs is 18/16, the mean use 5/4.
    assert found.gini == pytest.approx(18 / 16 / 2 / (5 / 4))
    assert found.lorenz[10] == pytest.approx(1 / 5)


def test_nothing_to_cover():
    for empty in (bank(), bank(("a", ["x"])), bank(("a", ["x"]), tools=())):
        assert measure_coverage(make_requests(empty), make_tools(empty)) is None
    assert measure_sets(make_requests(bank())) is None


def test_sets_are_the_same_in_any_order_and_by_any_name():
    shop = bank(
        ("a", ["shop.sum", "shop.undo"]),
        ("b", ["shop.cancelOrder", "shop.sum"]),
        ("c", ["shop.sum"]),
        ("d", ["shop.sum", "shop.weigh", "shop.find_order"]),
    )
    found = measure_sets(make_requests(shop))
    assert (found.distinct, found.share, found.largest) == (3, 0.75, 0.5)
    assert (found.sizes, found.mean) == ({1: 1, 2: 2, 3: 1}, 2)
