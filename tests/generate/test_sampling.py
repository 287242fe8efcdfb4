from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbank.generate.config import GenerateConfig
from toolbank.generate.sampling import describe_fit, make_offers
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


@pytest.mark.parametrize("sampling", ["deck", "uniform"])
@pytest.mark.parametrize("tools", [2, 3, 9])
def test_a_small_bank_is_offered_whole(tools, sampling):
    config = GenerateConfig(sampling=sampling)
    made = make_offers([str(n) for n in range(tools)], config, 0)
    for attempt in range(20):
        offer = made.offer(attempt)
        assert len(set(offer.tools)) == tools
        assert 2 <= offer.at_most <= min(5, tools)
    told = describe_fit(config, tools)
    assert f"the bank has {tools} tools" in told
    assert ("uses at most" in told) == (tools < 5)


def test_a_bank_as_large_as_an_offer_needs_no_word():
    assert describe_fit(GenerateConfig(), 10) == ""


def test_a_bank_smaller_than_any_query_is_an_error_that_says_so():
    with pytest.raises(InputError, match=r"uses 2 tools at least, and the bank has 1"):
        offers(1, 10)
    two = make_offers(["a", "b"], GenerateConfig(tools_per_query={1: 1, 4: 9}), 0)
    assert {two.offer(n).at_most for n in range(50)} == {1}


@pytest.mark.parametrize("sampling", ["deck", "uniform"])
def test_numbers_of_tools_are_drawn_by_their_shares_from_seed_and_attempt(sampling):
    shares = {4: 0.15, 1: 0.25, 2: 0.35, 3: 0.25}

    def drawn(seed, shares=shares):
        config = GenerateConfig(tools_per_query=shares, sampling=sampling)
        made = make_offers([str(n) for n in range(20)], config, seed)
        offers = [made.offer(n) for n in range(4000)]
        assert all(offer.at_least == offer.at_most for offer in offers)
        return [offer.at_most for offer in offers]

    counts = Counter(drawn(0))
    for number, share in shares.items():
        assert counts[number] / 4000 == pytest.approx(share, abs=0.03)
    assert drawn(0, dict(sorted(shares.items()))) == drawn(0)
    assert drawn(0, {n: 100 * share for n, share in shares.items()}) == drawn(0)
    assert drawn(1) != drawn(0)


def test_a_bank_smaller_than_all_shares_is_an_error_that_names_their_key():
    config = GenerateConfig(tools_per_query={3: 1, 4: 1})
    with pytest.raises(InputError, match=r"tools_per_query: a query uses 3 tools"):
        make_offers(["a", "b"], config, 0)
