import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

from tests.requests.quality.banks import bank
from toolbank.requests.quality.texts import (
    content_words,
    count_syllables,
    draw,
    grade,
    make_asks,
    make_requests,
    make_tools,
    measure_openings,
    measure_overlap,
    measure_reading,
    measure_self_bleu,
    measure_variety,
    words_of,
    words_of_name,
)

TEXTS_TO_DRAW = st.lists(st.text(max_size=5) | st.just("\ud800"), max_size=20)


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


@given(TEXTS_TO_DRAW, st.integers(), st.integers(0, 9))
def test_what_is_drawn_hangs_on_the_texts_alone(texts, seed, most):
    found = [texts[n] for n in draw(texts, most, seed)]
    assert len(found) == min(most, len(texts))
    back = texts[::-1]
    assert found == [back[n] for n in draw(back, most, seed)]
    assert found == [texts[n] for n in draw(texts, most + 1, seed)][:most]


@pytest.mark.parametrize(
    ("text", "words", "sentences", "syllables"),
    [
        ("The cat sat on the mat.", 6, 1, 6),
        # Of Wikipedia, whose reading ease is 69 there: as many words and syllables.
        (
            "This sentence, taken as a reading passage unto itself, is being used to prove a "
            "point.",
            *(16, 1, 23),
        ),
        ("Which of them? All, at 3.5 degrees! No", 9, 3, 10),
        ("the sea", 2, 1, 2),
    ],
)
def test_the_grade_by_hand(text, words, sentences, syllables):
    by_hand = 0.39 * words / sentences + 11.8 * syllables / words - 15.59
    assert grade([text])[0] == pytest.approx(by_hand, abs=1e-6)


SYLLABLES = """
    the 1 table 2 tables 2 make 1 makes 1 wanted 2 asked 1 boxes 2 changes 2 added 2 styles 1
    median 3 area 2 idea 2 being 2 create 2 created 3 client 2 region 2 station 2 via 2 rhythm 1
    annual 3 image 2 images 3 queue 1 free 1 people 2 average 3 numpy 2 array 2 quarterly 3
    temperature 4 hour 1 fly 1 crwth 1 eye 1 degrees 2 various 3 previous 3 business 3
"""


def test_syllables_of_common_words():
    told = SYLLABLES.split()
    known = dict(zip(told[::2], map(int, told[1::2]), strict=True))
    frame = pl.DataFrame({"word": list(known)})
    found = frame.select("word", n=count_syllables(pl.col("word")))
    wrong = {w: n for w, n in found.iter_rows() if n != known[w]}
    assert not wrong


def test_the_middle_and_the_ends_of_many():
    texts = [f"{'Many long complicated sentences ' * n}end." for n in range(11)]
    found = measure_reading(texts)
    grades = sorted(grade(texts))
    assert found.median == grades[5]
    assert (found.low, found.high) == (grades[1], grades[9])
    assert grade(["...", ""]).to_list() == [None, None]
    assert measure_reading(["", "?!"]) is None


WORDS = st.sampled_from(["red", "blue", "green", "cold", "warm", "sea", "hill", "road"])
TEXT = st.lists(WORDS, min_size=1, max_size=9).map(" ".join)
TEXTS = st.lists(TEXT, min_size=2, max_size=8)


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


def test_self_bleu_of_an_empty_text_and_of_one_alone():
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


def test_openings_are_the_first_three_words():
    def openings(*texts):
        return measure_openings(make_requests(bank(*((t, ["x"]) for t in texts))))

    found = openings("I need to go.", "i need to, stay", "I NEED to", "Stay here", "")
    shares = {"i need to": 0.6, "": 0.2, "stay here": 0.2}
    assert found.commonest == pytest.approx(shares)
    assert found.share == pytest.approx(1)
    found = openings(*(f"{n} is one" for n in range(40)))
    assert (len(found.commonest), found.share) == (10, pytest.approx(10 / 40))


def test_overlap_by_hand_and_by_kind_of_asking():
    shop = bank(
        # It says find and sum of find, order, sum; find, customer and sum are of the tools' texts.
        ("Find the customer, and sum the money.", ["shop.find_order", "shop.sum"]),
        ("heavy box", ["shop.weigh", "not.there"]),
        ("of the", ["shop.weigh"]),
        asks=[
            ("shop.weigh", "terse", "weigh parcel"),
            ("shop.weigh", "plain", "How heavy?"),
            ("shop.sum", "plain", "How heavy?"),
        ],
    )
    tools = make_tools(shop)
    found = measure_overlap(make_requests(shop), make_asks(shop), tools)
    counted = {one.kind: one.n for one in found}
    assert [*counted.items()] == [("requests", 2), ("plain", 1), ("terse", 1)]
    requests, plain, terse = found
    assert requests.name == pytest.approx((2 / 3 + 0) / 2)
    assert requests.own == pytest.approx((3 / 4 + 0) / 2)
    assert requests.own_bins == (1, 0, 0, 0, 0, 0, 0, 1, 0, 0)
    assert (terse.name, terse.own, terse.own_bins[-1]) == (1, 1, 1)
    assert (plain.name, plain.own) == (0, 0)
    nothing = bank(("heavy box", ["x"]), tools=())
    of = make_requests(nothing), make_asks(nothing), make_tools(nothing)
    assert not measure_overlap(*of)
