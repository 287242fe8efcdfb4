import json
from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.world import WORDS
from toolbank.bank.records import SeeAlso, Tool
from toolbank.requests.write.affinity import Affinity
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
        # An alternative may wait for the next shuffle.
        assert max(counts.values()) - min(counts.values()) <= 2
    default = make_offers(CALENDAR, GenerateConfig(families=True), 0)
    assert len(default.offer(0).tools) == 10


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_families_change_nothing_where_no_tool_has_siblings(sampling):
    config = GenerateConfig(sampling=sampling)
    together = config.model_copy(update={"families": True})
    one, other = (make_offers(tools(40), c, 5) for c in (config, together))
    assert [one.offer(n) for n in range(50)] == [other.offer(n) for n in range(50)]


KINDS = ("sorted", "running", "weighted", "trimmed")
# Twelve groups of four ways to do the same, and what is done to one object.
ALIKE = [
    *(
        Tool(
            name=f"m.{kind}_{thing}",
            summary=f"Compute the {thing} of the {thing} table, {kind}.",
        )
        for thing in WORDS[:12]
        for kind in KINDS
    ),
    *(
        Tool(name=f"m.{verb}_box", summary=f"{verb.title()}s the box of the owner.")
        for verb in ("add", "remove", "open")
    ),
]


def things(offer):
    """What the tools of an offer compute, without the box."""
    return [name.partition("_")[2] for name in offer.tools if "box" not in name]


@pytest.mark.parametrize("sampling", ["deck", "related"])
def test_a_set_has_at_most_one_of_several_alternatives(sampling):
    config = GenerateConfig(sampling=sampling, offered=6)
    made = make_offers(ALIKE, config, 0)
    offers = [made.offer(n) for n in range(400)]
    assert all(len(set(things(o))) == len(things(o)) for o in offers)
    # Different things are done to the box, so they may meet.
    boxes = [sum("box" in name for name in offer.tools) for offer in offers]
    assert max(boxes) > 1
    counts = Counter(name for offer in offers for name in offer.tools)
    assert counts.keys() == {tool.name for tool in ALIKE}
    if sampling == "deck":
        assert max(counts.values()) - min(counts.values()) <= 2
    together = config.model_copy(update={"separate_alternatives": False})
    others = make_offers(ALIKE, together, 0)
    met = [things(others.offer(n)) for n in range(400)]
    assert any(len(set(names)) < len(names) for names in met)


def test_more_alternatives_than_sets_meet_and_stay_equally_frequent():
    same = [Tool(name=f"s.f{n}", summary="Compute the mean of rows.") for n in range(9)]
    bank = [*same, *tools(5)]
    made = make_offers(bank, GenerateConfig(offered=6), 0)
    counts = Counter(name for n in range(280) for name in made.offer(n).tools)
    assert max(counts.values()) - min(counts.values()) <= 3


@settings(max_examples=20)
@given(st.lists(st.sampled_from([0, 0.5, 1, 3, 10]), min_size=8, max_size=20))
def test_tools_are_offered_by_their_weights_and_those_of_weight_0_never(weights):
    weights = [*weights, 1, 1, 1, 1]
    bank = [Tool(name=f"m{n}.f", summary=f"Do {n}.") for n in range(len(weights))]
    by_name = {f"m{n}": weight for n, weight in enumerate(weights)}
    for sampling in SAMPLINGS:
        config = GenerateConfig(
            sampling=sampling, offered=4, max_tools=4, weights=by_name
        )
        made = make_offers(bank, config, 0)
        hands = [made.offer(n).tools for n in range(400)]
        assert all(len(set(hand)) == 4 for hand in hands)
        counts = Counter(int(name[1:-2]) for hand in hands for name in hand)
        assert all(weights[n] for n in counts)
        if sampling != "deck":
            continue
        assert counts.keys() == {n for n, weight in enumerate(weights) if weight}
        for a, b in combinations(counts, 2):
            if weights[a] == weights[b]:
                assert counts[a] == pytest.approx(counts[b], rel=0.02, abs=3)


def test_the_weight_of_the_longest_name_counts():
    weights = {"dates": 0, "dates.Day": 1, "dates.Day.copy": 3}
    config = GenerateConfig(weights=weights, offered=2, max_tools=2)
    made = make_offers(CALENDAR, config, 0)
    counts = Counter(name for n in range(90) for name in made.offer(n).tools)
    assert counts.keys() == {f"dates.Day.{name}" for name in ("copy", "is_end", "roll")}
    # It is once in every set, or nearly.
    assert 85 <= counts["dates.Day.copy"] <= 90
    with pytest.raises(InputError, match=r"weights: .*'dates\.Dya'.*'dates\.Day'"):
        make_offers(CALENDAR, GenerateConfig(weights={"dates.Dya": 2}), 0)


def write_sets(folder, *lines):
    path = folder / "sets.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return GenerateConfig(candidate_sets=path)


def test_own_candidate_sets_are_offered_in_turn(tmp_path):
    sets = ["0 1", "5 3 8 1 2 4", "7 6 2"]
    config = write_sets(tmp_path, *(line.split() for line in sets))
    made = make_offers(tools(9), config, 0)
    offers = [made.offer(n) for n in range(60)]
    assert [" ".join(offer.tools) for offer in offers] == sets * 20
    assert {offer.at_most for offer in offers[::3]} == {2}
    assert {offer.at_most for offer in offers[1::3]} == {2, 3, 4, 5}
    assert describe_size_limits(config, tools(9)) == ""


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (["0", "mean"], "no tool 'mean'"),
        (["0", ["1"]], "no tool"),
        (["0", "1", "0"], "'0' is there twice"),
        ([], "0 tools, .* 2"),
        (["4"], "1 tool, .* 2"),
        (["3", "2"], "same set as in line 1"),
        ({"tools": ["0"]}, "not a JSON list"),
    ],
)
def test_a_broken_candidate_set_is_refused_with_its_line(tmp_path, line, told):
    config = write_sets(tmp_path, ["2", "3"], line)
    with pytest.raises(InputError, match=f"(?s)sets.jsonl.*line 2: .*{told}"):
        make_offers(tools(5), config, 0)


def test_own_candidate_sets_fit_the_number_of_tools(tmp_path):
    config = write_sets(tmp_path, ["2", "3"], ["1", "2", "3"])
    exact = config.model_copy(update={"tools_per_query": {3: 1}})
    with pytest.raises(InputError, match=r"line 1: 2 tools, .* 3"):
        make_offers(tools(5), exact, 0)
    with pytest.raises(InputError, match="no set"):
        make_offers(tools(5), write_sets(tmp_path), 0)
    with pytest.raises(ValueError, match="candidate_sets replaces"):
        GenerateConfig(candidate_sets=tmp_path, sampling="deck")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("Compute the mean along an axis.", "Computes the mean along an axis.", True),
        ("Creates a rule of a bucket.", "Deletes a rule of a bucket.", False),
        ("Compute the mean along an axis.", "Sort the rows of a table.", False),
    ],
)
def test_alternatives_say_the_same_and_do_the_same(first, second, expected):
    others = [Tool(name=f"o{n}", summary=f"Work on {w}.") for n, w in enumerate(WORDS)]
    pair = [Tool(name="a", summary=first), Tool(name="b", summary=second)]
    assert Affinity([*pair, *others]).are_alternatives(0, 1) is expected


@pytest.mark.parametrize("sampling", ["deck", "related"])
def test_distinct_sets_draw_the_tool_of_each_request_for_one(sampling):
    def make():
        shares = {1: 1, 2: 2}
        config = GenerateConfig(
            tools_per_query=shares, sampling=sampling, distinct_sets=True
        )
        return make_offers(tools(40), config, 0)

    forwards, backwards = make(), make()
    made = [forwards.offer(n) for n in range(200)]
    assert [backwards.offer(n) for n in reversed(range(200))] == made[::-1]
    single = [offer for offer in made if offer.at_most == 1]
    assert len(single) > 40
    assert len({offer.tools for offer in single[:40]}) == 40
    assert all(offer.tools[0] not in offer.contrast for offer in single)
    assert max(len(offer.contrast) for offer in single) <= 9
    assert all(len(offer.tools) == 10 for offer in made if offer.at_most == 2)


@given(st.integers(21, 60), st.integers())
@settings(deadline=None)
def test_no_tool_meets_the_first_tool_of_related_sets_twice(n, seed):
    # All are alike, so that the related ones are drawn from all.
    alike = [Tool(name=f"t{i}", summary="Work on it.") for i in range(n)]
    config = GenerateConfig(
        sampling="related", distinct_sets=True, separate_alternatives=False
    )
    made = make_offers(alike, config, seed)
    pairs = [
        frozenset((first, other))
        for first, *others in (made.offer(i).tools for i in range(n))
        for other in others
    ]
    assert len(set(pairs)) == len(pairs)
