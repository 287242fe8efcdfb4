import numpy as np

from toolbank.retrievers.refiner.network import search_rows, train_rows
from toolbank.retrievers.relevance import Relevance

N_TOOLS, D = 9, 4
VECTORS = np.arange(N_TOOLS * D, dtype=np.float32).reshape(N_TOOLS, D)


def make_rows(hits, own_tools, own=None):
    indices = np.array(hits, dtype=np.int64)
    own_tools = np.array(own_tools, dtype=np.int64)
    falling = -np.arange(indices.shape[1], dtype=np.float32)
    scores = np.broadcast_to(falling, indices.shape)
    return train_rows(
        search_rows([[1, 2]] * len(indices), (indices, scores), VECTORS),
        Relevance(
            [""] * len(indices),
            own_tools,
            np.ones(len(indices)),
            np.zeros((len(indices), 0), np.int64),
        ),
        own=np.zeros((*own_tools.shape, D), np.float32) if own is None else own,
    )


def test_a_querys_own_tools_have_vectors_made_without_it():
    own = -np.arange(2 * 3 * D, dtype=np.float32).reshape(2, 3, D) - 1
    rows = make_rows([[5, 2, 0], [0, 8, 5]], [[0, 5, -1], [8, -1, -1]], own)
    for row, expected in (
        (0, [own[0, 1], VECTORS[2], own[0, 0]]),
        (1, [VECTORS[0], own[1, 0], VECTORS[5]]),
    ):
        np.testing.assert_array_equal(rows[row]["vectors"], expected)


def test_every_gold_tool_is_a_label_of_its_own():
    rows = make_rows([[7, 1, 6, 2], [1, 2, 3, 4]], [[6, 7, -1], [4, 8, -1]])
    assert rows.candidates.tolist() == [[7, 1, 6, 2], [1, 2, 3, 4]]
    assert rows[0]["labels"].tolist() == [True, False, True, False]
    # Tool 8 was missed: no label stands for it, and padding is no tool.
    assert rows[1]["labels"].tolist() == [False, False, False, True]
