import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import bootstrap

from toolbank.evaluation.figures import FEWEST
from toolbank.evaluation.paired import compare_columns, holm


def compare_one(values, **more):
    return compare_columns(np.array(values)[:, :, None], **more)[0]


def draw(random, seeds, n, *, mean=0.0, by_seed=0.0, by_request=0.3, rest=0.3):
    return (
        mean
        + by_seed * random.normal(size=(seeds, 1))
        + by_request * random.normal(size=(1, n))
        + rest * random.normal(size=(seeds, n))
    )


def test_of_one_seed_the_interval_is_that_of_a_library():
    values = np.random.default_rng(3).choice([-1, -0.5, 0, 1], (1, 80))
    ours = compare_one(values, resamples=50_000)
    theirs = bootstrap(
        (values[0],), np.mean, n_resamples=50_000, method="percentile", rng=1
    )
    assert ours.difference == pytest.approx(values.mean())
    assert (ours.low, ours.high) == pytest.approx(
        tuple(theirs.confidence_interval), abs=0.01
    )
    share = (theirs.bootstrap_distribution >= 0).mean()
    assert ours.p == pytest.approx(2 * min(share, 1 - share), abs=0.02)
    assert (ours.n, ours.seeds) == (80, 1)


def test_of_many_seeds_and_requests_the_interval_is_that_of_the_normal_model():
    values = draw(np.random.default_rng(0), 40, 400, by_seed=0.05)
    error = np.sqrt(values.mean(axis=1).var() / 40 + values.mean(axis=0).var() / 400)
    found = compare_one(values)
    assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.06)


@pytest.mark.parametrize("seeds", [2, 3, 5])
@pytest.mark.parametrize("by_seed", [0.0, 0.03])
def test_no_difference_is_called_one_in_at_most_one_of_twenty_or_nearly(seeds, by_seed):
    random = np.random.default_rng(seeds)
    found = [
        compare_one(draw(random, seeds, 100, by_seed=by_seed), resamples=400)
        for _ in range(300)
    ]
    assert sum(one.low <= 0 <= one.high for one in found) >= 0.93 * 300
    assert sum(one.p <= 0.05 for one in found) <= 0.07 * 300


def test_a_clear_difference_is_found():
    values = draw(np.random.default_rng(1), 3, 200, mean=0.2, by_seed=0.02)
    found = compare_one(values)
    assert 0 < found.low < 0.2 < found.high
    assert found.p == pytest.approx(2 / 10_001)


def test_the_same_result_under_every_seed_is_as_sure_as_one_and_another_less():
    row = np.random.default_rng(2).choice([-1.0, 0, 1], 90)
    once, thrice = (
        compare_one(np.tile(row, (seeds, 1)), resamples=20_000) for seeds in (1, 3)
    )
    assert (thrice.low, thrice.high) == pytest.approx((once.low, once.high), abs=0.01)
    moved = compare_one(row + np.array([[-0.2], [0], [0.2]]))
    assert moved.high - moved.low > 1.2 * (thrice.high - thrice.low)


def test_requests_of_one_seed_alone_are_compared_too():
    random = np.random.default_rng(4)
    matrix = np.full((3, 90), np.nan)
    for row, (start, end) in zip(matrix, ((0, 20), (20, 60), (60, 90)), strict=True):
        row[start:end] = random.normal(0.5, 0.3, end - start)
    found = compare_one(matrix)
    assert found.difference == pytest.approx(np.nanmean(matrix, axis=1).mean())
    assert (found.n, found.seeds) == (90, 3)
    assert found.low < found.difference < found.high


@pytest.mark.parametrize("n", [1, FEWEST - 1])
def test_of_too_few_requests_there_is_no_interval(n):
    found = compare_one(np.ones((3, n)))
    assert (found.difference, found.low, found.high, found.p) == (1, None, None, None)


@pytest.mark.parametrize(
    "value, is_sure", [(0.0, False), (0.01, False), (1.0, True), (-1.0, True)]
)
def test_requests_that_are_all_alike_are_no_surer_than_their_number(value, is_sure):
    found = compare_one(np.full((3, 30), value))
    assert (found.p <= 0.05) == (found.low * found.high > 0) == is_sure
    assert found.high - found.low > 0.05
    assert found.low <= value <= found.high


@pytest.mark.parametrize("given", [np.zeros((0, 3)), [[0.1, 0.2], [np.nan] * 2]])
def test_a_seed_without_a_request_is_refused(given):
    with pytest.raises(ValueError, match="seed"):
        compare_one(given)


MATRICES = st.integers(0, 10_000).map(
    lambda seed: draw(
        np.random.default_rng(seed), 1 + seed % 4, 10 + seed % 17, mean=0.1
    )
)


@given(MATRICES)
def test_p_and_interval_agree_and_swapping_the_methods_turns_them_over(values):
    found, swapped = (compare_one(one, resamples=200) for one in (values, -values))
    assert found.p == swapped.p
    assert (found.low, found.high) == pytest.approx((-swapped.high, -swapped.low))
    # 5 % of 200 resamples: the ends lie between two of them.
    assert (found.low * found.high > 0) == (found.p < 0.05) or 0.04 < found.p < 0.07


@given(MATRICES)
def test_a_column_is_compared_as_it_is_alone(values):
    columns = np.stack([values, values**2, np.zeros_like(values)], axis=2)
    together = compare_columns(columns, resamples=50)
    for column, found in enumerate(together):
        alone = compare_one(columns[:, :, column], resamples=50)
        for key, value in vars(found).items():
            assert vars(alone)[key] == pytest.approx(value)


@pytest.mark.parametrize(
    "p_values, adjusted",
    [
        # Four tests, by hand: 4 x 0.005, 3 x 0.01, 2 x 0.03, then no less than the one before.
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([0.2], [0.2]),
        ([0.5, 0.9], [1.0, 1.0]),
        ([None, 0.02, 0.02], [None, 0.04, 0.04]),
        ([], []),
    ],
)
def test_holm_by_hand(p_values, adjusted):
    assert holm(p_values) == pytest.approx(adjusted)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_lies_between_the_p_values_and_bonferroni_and_keeps_their_order(p_values):
    adjusted, m = holm(p_values), len(p_values)
    for p, found in zip(p_values, adjusted, strict=True):
        assert p <= found <= min(1, m * p)
    order = sorted(range(m), key=p_values.__getitem__)
    assert [adjusted[i] for i in order] == sorted(adjusted)
    # Step down (Holm 1979): reject the smallest while p <= 0.05 / (m - rank).
    rejected = 0
    while rejected < m and (m - rejected) * p_values[order[rejected]] <= 0.05:
        rejected += 1
    assert sum(found <= 0.05 for found in adjusted) == rejected
