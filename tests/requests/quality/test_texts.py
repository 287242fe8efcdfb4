import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from toolbank.requests.quality.texts import content_words, draw, words_of, words_of_name


def told(expression, text):
    return pl.DataFrame({"text": [text]}).select(expression(pl.col("text"))).item()


def test_words_are_without_signs_and_keep_their_apostrophes():
    found = told(words_of, "Don\u2019t, I said: 'one' Größe_2 (3.5)!").to_list()
    assert found == ["don\u2019t", "i", "said", "one", "größe_2", "3", "5"]


def test_words_of_a_name():
    for name, words in {
        "numpy.nan_to_num": ["nan", "to", "num"],
        "pandas.DataFrame.isIn": ["is", "in"],
        "Worldwide Recipes::Suggestions": ["worldwide", "recipes", "suggestions"],
        "server/getItem2": ["server", "get", "item2"],
        "__": [],
    }.items():
        assert told(words_of_name, name).to_list() == words


def test_small_words_mean_nothing_and_each_counts_once():
    def content(text):
        return content_words(words_of(text))

    assert told(content, "The sea and the sea of it all").to_list() == ["sea"]


@given(st.lists(st.text(max_size=5), max_size=20), st.integers(), st.integers(0, 9))
def test_what_is_drawn_hangs_on_the_texts_alone(texts, seed, most):
    found = [texts[n] for n in draw(texts, most, seed)]
    assert len(found) == min(most, len(texts))
    back = texts[::-1]
    assert found == [back[n] for n in draw(back, most, seed)]
    assert found == [texts[n] for n in draw(texts, most + 1, seed)][:most]


def test_half_a_character_is_drawn_too():
    assert draw(["\ud800"], 1, seed=0) == [0]
