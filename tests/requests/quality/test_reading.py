import polars as pl
import pytest

from toolbank.requests.quality.texts import count_syllables, grade, measure_reading


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
