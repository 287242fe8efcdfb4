"""Splits, withheld tools, and splits that share no set, tool or family."""

from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbank.bank.records import McpCall, Query, Tool
from toolbank.bank.split import (
    Catalogue,
    SplitConfig,
    assign_apart,
    assign_splits,
    find_family,
    find_held_out_tools,
    make_units,
    split_dataset,
    split_queries,
    thin_train,
)


def make_queries(requests, splits=()):
    """A query for the tools of each request, of these splits."""
    splits = [*splits, *[None] * len(requests)]
    return [
        Query(id=str(i), query=str(i), tools=tuple(tools), split=splits[i])
        for i, tools in enumerate(requests)
    ]


def in_turn(*splits):
    """Queries of these splits, each for one of ten tools in turn."""
    return make_queries([(f"t{i % 10}",) for i in range(len(splits))], splits)


def make_tools(names):
    return tuple(Tool(name=name) for name in names)


TEN = [f"t{i}" for i in range(10)]
BEFORE = Catalogue(make_tools(TEN))


@given(st.integers(0, 200), st.integers())
def test_every_query_gets_one_split_and_the_shares_hold(n, seed):
    queries = in_turn(*[None] * n)
    config = SplitConfig(validation=0.1, test=0.2)
    split = list(split_queries(queries, config, seed))
    names = [query.split for query in split]
    assert [query.id for query in split] == [query.id for query in queries]
    assert names.count("test") == round(0.2 * n)
    assert names.count("validation") == round(0.1 * n)
    assert names.count("train") == n - round(0.2 * n) - round(0.1 * n)
    assert split == list(split_queries(queries, config, seed))
    assert names == assign_splits(n, config, seed)


@given(st.integers(1, 80), st.floats(0.01, 1), st.floats(0.01, 1), st.integers())
def test_a_share_of_train_is_of_that_size_and_part_of_every_larger_one(n, a, b, seed):
    queries = in_turn(*["train"] * n, *["test"] * 5, None)
    kept = {}
    for share in sorted((a, b)):
        config = SplitConfig(train_share=share)
        thinned, left = thin_train(queries, config, seed)
        train = {query.id for query in thinned if query.split == "train"}
        assert len(train) == max(1, round(share * n)) == n - left
        assert [q.id for q in thinned] == [q.id for q in queries]
        assert thinned[n:] == queries[n:]
        kept[share] = train
    assert kept[min(a, b)] <= kept[max(a, b)]


@given(st.integers(0, 60), st.integers(0, 60), st.integers())
def test_a_datasets_own_test_stays_and_validation_is_of_train(n, n_test, seed):
    queries = in_turn(*["train"] * n, *["test"] * n_test)
    split = [q.split for q in split_dataset(queries, SplitConfig(), seed)]
    if n_test:
        assert split[n:] == ["test"] * n_test
        assert "test" not in split[:n]
    else:
        assert split.count("test") == round(0.1 * n)
    assert split.count("validation") == round(0.1 * n)


def test_a_datasets_own_validation_stays_and_without_splits_it_gets_all_three():
    queries = in_turn(*["train", "validation", "test"] * 20)
    split = split_dataset(queries, SplitConfig(validation=0.4), seed=0)
    assert [q.split for q in split] == [q.split for q in queries]
    split = split_dataset(in_turn(*[None] * 40), SplitConfig(), seed=0)
    counts = Counter(query.split for query in split)
    assert counts == {"train": 32, "validation": 4, "test": 4}


@given(st.floats(0, 0.9), st.integers())
def test_no_query_of_training_uses_a_withheld_tool(share, seed):
    config = SplitConfig(test=0.3, withhold_tools=share)
    withheld = BEFORE.draw_withheld(config, seed)
    assert len(withheld) == round(10 * share)
    assert withheld == BEFORE.draw_withheld(config, seed)
    queries = in_turn(*[None] * 50)
    whole = list(split_queries(queries, config, seed))
    for split in (
        list(split_queries(queries, config, seed, withheld)),
        split_dataset(queries, config, seed, withheld),
    ):
        for query, before in zip(split, whole, strict=True):
            uses = not withheld.isdisjoint(query.tools)
            drops = uses and before.split != "test"
            assert query.split == (None if drops else before.split)


@given(st.floats(0, 0.9), st.integers())
def test_tools_that_come_and_go_leave_the_others_withheld_or_not(share, seed):
    config = SplitConfig(withhold_tools=share)
    before = BEFORE.draw_withheld(config, seed)
    now = [*TEN[3:], *(f"new-{n}" for n in range(10))]
    after = BEFORE.followed_by(make_tools(now), 1).draw_withheld(config, seed)
    assert after.intersection(TEN) == before.intersection(now)
    assert len(after.difference(TEN)) == round(10 * share)


def test_a_query_of_a_tool_that_is_gone_is_in_no_split():
    queries = in_turn(*[None] * 50)
    gone = frozenset(TEN[:2])
    whole = split_queries(queries, SplitConfig(), 0)
    split = split_queries(queries, SplitConfig(), 0, gone=gone)
    for query, before in zip(split, whole, strict=True):
        kept = gone.isdisjoint(query.tools)
        assert query.split == (before.split if kept else None)


TOOLS = tuple(
    Tool(name=f"{family}.{name}", aliases=(f"old.{family}_{name}",))
    for family in ("a", "b", "c", "d", "e", "f")
    for name in ("x", "y", "z")
)
NAMES = st.sampled_from([n for tool in TOOLS for n in (tool.name, *tool.aliases)])
REQUEST = st.lists(NAMES, min_size=1, max_size=3, unique=True)
REQUESTS = st.lists(REQUEST, min_size=1, max_size=60)
BY = ["set", "tool", "family"]


def by_split(queries, units):
    found = defaultdict(set)
    for query in queries:
        if query.split:
            found[query.split] |= units(query)
    return found


def test_a_family_is_what_the_reference_tells_of():
    call = McpCall(source="my.server", tool="add")
    families = [
        (Tool(name="my.server/add", call=call), "my.server"),
        (Tool(name="pets.list", tags=("Pets", "all")), "Pets"),
        (Tool(name="numpy.linalg.norm"), "numpy.linalg"),
        (Tool(name="alone"), "alone"),
    ]
    for tool, family in families:
        assert find_family(tool) == family
        [query] = make_queries([[tool.name, "unknown"]])
        assert make_units("family", [tool])(query) == {family, "unknown"}


@given(REQUESTS, st.sampled_from(BY), st.integers(0, 5))
def test_no_two_splits_share_a_set_a_tool_or_a_family(requests, by, seed):
    queries = make_queries(requests)
    units = make_units(by, TOOLS)
    config = SplitConfig(by=by, validation=0.2, test=0.2)
    split = list(split_queries(queries, config, seed, units=units))
    found = by_split(split, units)
    assert found["test"].isdisjoint(found["train"] | found["validation"])
    assert found["validation"].isdisjoint(found["train"])
    assert split == list(split_queries(queries, config, seed, units=units))
    # What is in no split would straddle two.
    held = found["test"] | found["validation"]
    for query in split:
        if query.split is None:
            assert not units(query).isdisjoint(held)


@given(REQUESTS, st.sampled_from(BY), st.data())
def test_a_datasets_own_test_shares_nothing_with_train(requests, by, data):
    names = st.sampled_from(["train", "test"])
    given_splits = [data.draw(names) for _ in requests]
    queries = make_queries(requests, given_splits)
    units = make_units(by, TOOLS)
    split = split_dataset(queries, SplitConfig(by=by), 0, units=units)
    if "test" in given_splits:
        own = [query.id for query in queries if query.split == "test"]
        assert [query.id for query in split if query.split == "test"] == own
    found = by_split(split, units)
    assert found["test"].isdisjoint(found["train"] | found["validation"])


def test_a_validation_that_a_dataset_has_shares_nothing_with_the_test_that_is_carved():
    names = "aabcde"
    units = [frozenset({name}) for name in names]
    given_splits = ["validation", *[None] * 5]
    for seed in range(5):
        splits = assign_apart(units, 2, 0, seed, given_splits)
        assert splits[:2] == ["validation", None]
        assert splits.count("test") == 2


def test_an_alias_is_its_tool_and_the_order_of_a_set_is_none():
    units = make_units("set", TOOLS)
    one, two = make_queries([["a.x", "b.y"], ["b.y", "old.a_x"]])
    assert units(one) == units(two)
    assert make_units("tool", TOOLS)(two) == {"a.x", "b.y"}
    assert make_units("family", TOOLS)(two) == {"a", "b"}
    assert make_units("random", TOOLS) is None


def test_few_are_lost_where_requests_fall_into_groups():
    # Ten groups of requests that share no tool, and one request between two of them.
    requests = [
        frozenset({f"{group}{n}", f"{group}{(n + 1) % 5}"})
        for group in "abcdefghij"
        for n in range(5)
    ] + [frozenset({"a0", "b0"})]
    for seed in range(5):
        splits = assign_apart(requests, 5, 5, seed)
        assert splits.count(None) <= 1
        assert splits.count("test") == 5
        assert splits.count("validation") == 5


def test_a_family_of_nearly_all_requests_stays_to_train_on():
    requests = [frozenset({"large"})] * 90 + [frozenset({f"{n}"}) for n in range(5)]
    for seed in range(5):
        splits = assign_apart(requests, 10, 10, seed)
        assert splits[:90] == ["train"] * 90
        assert splits[90:] == ["test"] * 5
    # Where all are asked for, all are held out.
    assert assign_apart(requests, 95, 0, 0) == ["test"] * 95


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 5))
def test_shares_are_as_asked_where_no_two_requests_share(n_test, n_validation, seed):
    requests = [frozenset({str(n)}) for n in range(120)]
    splits = assign_apart(requests, n_test, n_validation, seed)
    assert splits.count("test") == n_test
    assert splits.count("validation") == n_validation
    assert splits.count("train") == 120 - n_test - n_validation


def test_tools_of_held_out_requests_are_known():
    units = make_units("family", TOOLS)
    queries = make_queries([["a.x"], ["b.x"], ["c.x"]], ["test", "train", "validation"])
    assert find_held_out_tools(queries, TOOLS, units) == {
        f"{family}.{name}" for family in "ac" for name in "xyz"
    }
    with pytest.raises(ValueError, match="remove one of them"):
        SplitConfig(by="tool", withhold_tools=0.1)
