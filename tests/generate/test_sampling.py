from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbank.generate.config import GenerateConfig
from toolbank.generate.sampling import make_offers
from toolbank.system.errors import InputError


def offers(n, offered, seed=0, sampling="deck"):
    config = GenerateConfig(
        offered=offered, max_tools=min(5, offered), sampling=sampling
    )
    return make_offers([str(i) for i in range(n)], config, seed)


@given(st.integers(2, 40), st.integers(2, 12), st.integers())
def test_dealt_tools_are_offered_equally_often_and_never_twice_at_once(
    n, offered, seed
):
    offered = min(offered, n)
    dealt = offers(n, offered, seed)
    hands = [dealt.offer(i) for i in range(n)]
    assert all(len(set(hand.tools)) == offered for hand in hands)
    counts = Counter(tool for hand in hands for tool in hand.tools)
    assert max(counts.values()) - min(counts[str(i)] for i in range(n)) <= 1
    assert all(2 <= hand.at_most <= 5 for hand in hands)


@pytest.mark.parametrize("sampling", ["deck", "uniform"])
def test_an_offer_depends_on_the_seed_and_its_number_alone(sampling):
    forwards = offers(53, 10, 7, sampling)
    backwards = offers(53, 10, 7, sampling)
    expected = [forwards.offer(i) for i in range(30)]
    assert [backwards.offer(i) for i in reversed(range(30))] == expected[::-1]
    assert offers(53, 10, 8, sampling).offer(0) != expected[0]


def test_more_tools_than_the_bank_has_can_not_be_offered():
    with pytest.raises(InputError, match=r"10 tools .* bank\s+has 9"):
        offers(9, 10)
