import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

from toolbank.requests.quality.texts import measure_self_bleu, measure_variety

WORDS = st.sampled_from(["red", "blue", "green", "cold", "warm", "sea", "hill", "road"])
TEXTS = st.lists(
    st.lists(WORDS, min_size=1, max_size=9).map(" ".join), min_size=2, max_size=8
)


def by_nltk(texts):
    split = [text.split() for text in texts]
    smooth = SmoothingFunction().method1
    scores = [
        sentence_bleu(split[:n] + split[n + 1 :], one, smoothing_function=smooth)
        for n, one in enumerate(split)
    ]
    return sum(scores) / len(scores)


@settings(max_examples=60, deadline=None)
@given(TEXTS)
def test_self_bleu_is_that_of_nltk(texts):
    found = measure_self_bleu(texts)
    assert found == pytest.approx(by_nltk(texts), abs=1e-9)
    assert 0 <= found <= 1 + 1e-9
    assert found == pytest.approx(measure_self_bleu(texts[::-1]))


def test_self_bleu_of_the_same_and_of_nothing_alike():
    assert measure_self_bleu(["a b c d e"] * 3) == pytest.approx(1)
    assert measure_self_bleu(["a b c d", "e f g h"]) == 0
    assert measure_self_bleu(["", "a b"]) == 0
    assert measure_self_bleu(["a b c d"]) is None


def test_distinct_by_hand():
    # the sea the hill the sea: 3 of 6 words; the-sea sea-the the-hill the-sea: 3 of 4 pairs.
    found = measure_variety(["The sea, the hill", "the sea"], seed=0)
    assert found.distinct == {1: 3 / 6, 2: 3 / 4, 3: 1}
    assert measure_variety(["the sea"], seed=0).distinct == {1: 1, 2: 1}


def test_samples_are_of_one_size_and_of_no_order():
    texts = [f"{'one thing or ' * (n % 7)} number {n} of them" for n in range(3000)]
    found = measure_variety(texts, seed=1)
    assert (found.words, found.sample) == (10_000, 500)
    assert found == measure_variety(texts[::-1], seed=1)
    assert found != measure_variety(texts, seed=2)
    assert measure_variety(["...", ""], seed=0) is None
    assert measure_variety([], seed=0) is None
