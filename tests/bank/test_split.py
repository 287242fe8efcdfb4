from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from toolbank.bank.records import Query, Tool
from toolbank.bank.split import (
    Catalogue,
    SplitConfig,
    assign_splits,
    split_dataset,
    split_queries,
)


@given(st.integers(0, 200), st.integers())
def test_every_query_gets_one_split_and_the_shares_hold(n, seed):
    queries = [Query(id=str(i), query=str(i), tools=("a",)) for i in range(n)]
    config = SplitConfig(validation=0.1, test=0.2)
    split = list(split_queries(queries, config, seed))
    names = [query.split for query in split]
    assert [query.id for query in split] == [query.id for query in queries]
    assert names.count("test") == round(0.2 * n)
    assert names.count("validation") == round(0.1 * n)
    assert names.count("train") == n - round(0.2 * n) - round(0.1 * n)
    assert split == list(split_queries(queries, config, seed))
    assert names == assign_splits(n, config, seed)


def make_queries(splits):
    return [
        Query(id=str(i), query=str(i), tools=(f"t{i % 10}",), split=split)
        for i, split in enumerate(splits)
    ]


def make_tools(names):
    return tuple(Tool(name=name) for name in names)


TOOLS = [f"t{i}" for i in range(10)]
BEFORE = Catalogue(make_tools(TOOLS))


@given(st.integers(0, 60), st.integers(0, 60), st.integers())
def test_a_datasets_own_test_stays_and_validation_is_of_train(n, n_test, seed):
    queries = make_queries(["train"] * n + ["test"] * n_test)
    split = [q.split for q in split_dataset(queries, SplitConfig(), seed)]
    if n_test:
        assert split[n:] == ["test"] * n_test
        assert "test" not in split[:n]
    else:
        assert split.count("test") == round(0.1 * n)
    assert split.count("validation") == round(0.1 * n)


def test_a_datasets_own_validation_stays_and_without_splits_it_gets_all_three():
    queries = make_queries(["train", "validation", "test"] * 20)
    split = split_dataset(queries, SplitConfig(validation=0.4), seed=0)
    assert [q.split for q in split] == [q.split for q in queries]
    split = split_dataset(make_queries([None] * 40), SplitConfig(), seed=0)
    counts = Counter(query.split for query in split)
    assert counts == {"train": 32, "validation": 4, "test": 4}


@given(st.floats(0, 0.9), st.integers())
def test_no_query_of_training_uses_a_withheld_tool(share, seed):
    config = SplitConfig(test=0.3, withhold_tools=share)
    withheld = BEFORE.draw_withheld(config, seed)
    assert len(withheld) == round(10 * share)
    assert withheld == BEFORE.draw_withheld(config, seed)
    queries = make_queries([None] * 50)
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
    now = [*TOOLS[3:], *(f"new-{n}" for n in range(10))]
    after = BEFORE.followed_by(make_tools(now), 1).draw_withheld(config, seed)
    assert after.intersection(TOOLS) == before.intersection(now)
    assert len(after.difference(TOOLS)) == round(10 * share)


def test_a_query_of_a_tool_that_is_gone_is_in_no_split():
    queries = make_queries([None] * 50)
    gone = frozenset(TOOLS[:2])
    whole = split_queries(queries, SplitConfig(), 0)
    split = split_queries(queries, SplitConfig(), 0, gone=gone)
    for query, before in zip(split, whole, strict=True):
        kept = gone.isdisjoint(query.tools)
        assert query.split == (before.split if kept else None)
