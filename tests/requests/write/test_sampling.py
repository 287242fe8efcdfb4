from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbank.bank.records import SeeAlso, Tool
from toolbank.requests.write.config import GenerateConfig, describe_size_limits
from toolbank.requests.write.sampling import make_offers
from toolbank.system.errors import InputError

SAMPLINGS = ["deck", "uniform", "related"]


def tools(n):
    return [Tool(name=str(i), summary=f"Number {i % 7}.") for i in range(n)]


def offers(n, offered, seed=0, sampling=None):
    most = min(5, offered)
    config = GenerateConfig(offered=offered, max_tools=most, sampling=sampling)
    return make_offers(tools(n), config, seed)


@given(st.integers(2, 40), st.integers(2, 12), st.integers())
def test_shuffled_tools_are_offered_equally_often_and_once_each(n, offered, seed):
    offered = min(offered, n)
    made = offers(n, offered, seed)
    first = [made.offer(i) for i in range(n)]
    assert all(len(set(offer.tools)) == offered for offer in first)
    counts = Counter(tool for offer in first for tool in offer.tools)
    assert max(counts.values()) - min(counts[str(i)] for i in range(n)) <= 1
    assert all(2 <= offer.at_most <= 5 for offer in first)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_an_offer_depends_on_the_seed_and_its_number_alone(sampling):
    forwards, backwards, other = (offers(53, 10, n, sampling) for n in (7, 7, 8))
    expected = [forwards.offer(i) for i in range(30)]
    assert [backwards.offer(i) for i in reversed(range(30))] == expected[::-1]
    assert other.offer(0) != expected[0]


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("n", [2, 3, 9])
def test_a_small_bank_is_offered_whole(n, sampling):
    config = GenerateConfig(sampling=sampling)
    made = make_offers(tools(n), config, 0)
    for attempt in range(20):
        offer = made.offer(attempt)
        assert len(set(offer.tools)) == n
        assert 2 <= offer.at_most <= min(5, n)
    told = describe_size_limits(config, tools(n))
    assert f"the bank has {n} tools" in told
    assert ("uses at most" in told) == (n < 5)


def test_a_bank_is_told_how_its_size_limits_an_offer():
    assert describe_size_limits(GenerateConfig(), tools(10)) == ""
    told = describe_size_limits(GenerateConfig(families=True), CALENDAR[:12])
    assert "the bank has 3 tools (siblings count as one)" in told
    two = make_offers(tools(2), GenerateConfig(tools_per_query={1: 1, 4: 9}), 0)
    assert {two.offer(n).at_most for n in range(50)} == {1}


@pytest.mark.parametrize(
    ("n", "settings", "told"),
    [
        (1, {}, r"generate\.min_tools: .* 2 tools.* 1\."),
        (2, {"tools_per_query": {3: 1, 4: 1}}, r"tools_per_query: .* 3 tools.* 2\."),
        (12, {"families": True, "min_tools": 4}, r"min_tools: .* 4 tools.* 3\."),
    ],
)
def test_a_bank_smaller_than_any_query_is_refused(n, settings, told):
    bank = CALENDAR[:n] if n > 2 else tools(n)
    with pytest.raises(InputError, match=told):
        make_offers(bank, GenerateConfig(**settings), 0)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_numbers_of_tools_are_drawn_by_their_shares_from_seed_and_attempt(sampling):
    shares = {4: 0.15, 1: 0.25, 2: 0.35, 3: 0.25}

    def drawn(seed, shares=shares):
        config = GenerateConfig(tools_per_query=shares, sampling=sampling)
        made = make_offers(tools(20), config, seed)
        offers = [made.offer(n) for n in range(600)]
        assert all(offer.at_least == offer.at_most for offer in offers)
        return [offer.at_most for offer in offers]

    counts = Counter(drawn(0))
    for number, share in shares.items():
        assert counts[number] / 600 == pytest.approx(share, abs=0.05)
    assert drawn(0, dict(sorted(shares.items()))) == drawn(0)
    assert drawn(0, {n: 100 * share for n, share in shares.items()}) == drawn(0)
    assert drawn(1) != drawn(0)


def test_the_tools_that_a_reference_links_meet_more_often_in_related_offers():
    links = [(SeeAlso(name=f"t{n ^ 1}"),) for n in range(200)]
    linked = [
        Tool(name=f"s.t{n}", summary="Work.", see_also=link)
        for n, link in enumerate(links)
    ]

    def count_pairs(sampling):
        made = make_offers(linked, GenerateConfig(sampling=sampling), 0)
        offered = [{int(t[3:]) for t in made.offer(n).tools} for n in range(100)]
        return sum(any(n ^ 1 in numbers for n in numbers) for numbers in offered)

    assert count_pairs("related") > 80
    assert count_pairs("deck") < 50


CLASSES = ("Day", "Hour", "Week", "Year")
CALENDAR = [
    *(
        Tool(name=f"dates.{of}.{name}", kind="method", summary=f"{name} of it.")
        for of in CLASSES
        for name in ("copy", "is_end", "roll")
    ),
    *(Tool(name=f"dates.own_{n}", summary=f"Do {n}.") for n in range(9)),
]


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_siblings_count_as_one_in_the_deal_where_families_are_wanted(sampling):
    config = GenerateConfig(sampling=sampling, families=True, offered=4, max_tools=4)
    made = make_offers(CALENDAR, config, 0)
    hands = [made.offer(n).tools for n in range(300)]
    lasts = [[name.rpartition(".")[2] for name in hand] for hand in hands]
    assert all(len(set(hand)) == 4 for hand in lasts)
    assert {name for hand in hands for name in hand} == {t.name for t in CALENDAR}
    # What a hand has of one class could also be put together.
    on_classes = [{name.split(".")[1] for name in hand} & {*CLASSES} for hand in hands]
    assert {len(classes) for classes in on_classes} <= {0, 1}
    if sampling == "deck":
        counts = Counter(name for hand in lasts for name in hand)
        assert max(counts.values()) - min(counts.values()) <= 1
    default = make_offers(CALENDAR, GenerateConfig(families=True), 0)
    assert len(default.offer(0).tools) == 10


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_families_change_nothing_where_no_tool_has_siblings(sampling):
    config = GenerateConfig(sampling=sampling)
    together = config.model_copy(update={"families": True})
    one, other = (make_offers(tools(40), c, 5) for c in (config, together))
    assert [one.offer(n) for n in range(50)] == [other.offer(n) for n in range(50)]
