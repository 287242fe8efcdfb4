import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from toolbank.retrievers.two_stage import interleave


def test_no_request_gives_no_hit():
    indices, scores = interleave(
        np.zeros((0, 2, 3), np.int64), np.zeros(0, np.int64), n_tools=3, k=3
    )
    assert indices.shape == scores.shape == (0, 3)


@given(st.data())
def test_it_is_what_walking_through_the_lists_gives(data):
    n_tools = data.draw(st.integers(1, 7))
    k = data.draw(st.integers(1, n_tools))
    depth = data.draw(st.integers(k, n_tools))
    most = data.draw(st.integers(1, 4))
    length = data.draw(st.integers(1, most))
    tools = st.permutations(range(n_tools))
    lists = [data.draw(tools)[:depth] for _ in range(most)]
    walked = [lists[j][rank] for rank in range(depth) for j in range(length)]
    indices, scores = interleave(np.array([lists]), np.array([length]), n_tools, k)
    assert indices[0].tolist() == list(dict.fromkeys(walked))[:k]
    np.testing.assert_allclose(scores[0], 1 / np.arange(1, k + 1), rtol=1e-6)
