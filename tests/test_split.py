from hypothesis import given
from hypothesis import strategies as st

from toolbank.bank import Query
from toolbank.split import SplitConfig, assign_splits, split_queries


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
