"""An index that grows or shrinks is the one of its texts, though it has none of them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from toolbank.retrievers.lexical import LexicalIndex

WORDS = st.sampled_from(["song", "play", "bell", "door", "city", "rain", "ring"])
TEXTS = st.lists(st.lists(WORDS, max_size=40).map(" ".join), max_size=8)


def same(index, texts):
    expected = LexicalIndex.of(texts)
    asked = ["song play bell door", "city rain", "ring"]
    np.testing.assert_array_equal(index.scores(asked), expected.scores(asked))
    assert set(index.vocabulary) == set(expected.vocabulary)


@given(TEXTS, TEXTS, st.data())
def test_it_is_as_if_made_of_the_texts_that_are_there(before, added, data):
    index = LexicalIndex.of(before)
    grown = index.added(added, range(len(before), len(before) + len(added)))
    texts = [*before, *added]
    same(grown, texts)
    rows = data.draw(st.permutations(range(len(texts))))
    rows = rows[: data.draw(st.integers(0, len(texts)))]
    same(grown.kept(np.array(rows, np.int64)), [texts[row] for row in rows])
    if texts:
        longer = data.draw(st.lists(st.tuples(st.integers(0, len(texts) - 1), WORDS)))
        for place, word in longer:
            texts[place] += f" {word}"
        same(grown.added([w for _, w in longer], [p for p, _ in longer]), texts)
    same(index, before)
