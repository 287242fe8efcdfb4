from hypothesis import given
from hypothesis import strategies as st

from toolbank.llm.progress import Part, compose

PARTS = [
    Part(0, "queries 150/1,000"),
    Part(3, "15 %"),
    Part(1, "ETA 01:10"),
    Part(2, "22.9 replies/s", "22.9/s"),
]


def test_all_is_told_with_a_bar_where_there_is_room():
    line = compose(PARTS, 90, share=0.15)
    assert line.startswith("queries 150/1,000  15 %  ETA 01:10  22.9 replies/s  [###")
    assert line.endswith(".]")


def test_what_matters_least_is_shortened_first_and_then_left_out():
    assert compose(PARTS, 52) == ("queries 150/1,000  15 %  ETA 01:10  22.9 replies/s")
    assert compose(PARTS, 45) == "queries 150/1,000  15 %  ETA 01:10  22.9/s"
    assert compose(PARTS, 40) == "queries 150/1,000  ETA 01:10  22.9/s"
    assert compose(PARTS, 20) == "queries 150/1,000"
    assert compose(PARTS, 5) == ""


@given(st.integers(0, 200), st.floats(0, 1) | st.none())
def test_the_line_fits_any_width(width, share):
    assert len(compose(PARTS, width, share)) <= width
