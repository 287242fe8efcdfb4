from hypothesis import given
from hypothesis import strategies as st

from toolbank.bank import Query
from toolbank.generate.fold import Attempt, Fold, NearDuplicates

kinds = st.sampled_from(["candidate", "same", "declined", "rejected", "failed"])


def attempt(number, kind):
    if kind in ("candidate", "same"):
        text = (
            "one text that comes again and again"
            if kind == "same"
            else f"{number} " * 9
        )
        return Attempt(
            number, "candidate", query=Query(id=str(number), query=text, tools=("a",))
        )
    return Attempt(number, kind, reason="because")


@given(st.lists(kinds, max_size=30), st.randoms(), st.integers(1, 12))
def test_the_fold_is_the_same_in_whatever_order_attempts_come(made, random, wanted):
    attempts = [attempt(number, kind) for number, kind in enumerate(made)]
    in_order, shuffled = Fold(wanted, 0.8), Fold(wanted, 0.8)
    for one in attempts:
        in_order.add(one)
    random.shuffle(attempts)
    for one in attempts:
        shuffled.add(one)
    assert shuffled.queries == in_order.queries
    assert shuffled.counts() == in_order.counts()


@given(st.lists(kinds, max_size=30), st.integers(1, 12))
def test_counts_add_up_and_the_fold_stops_at_what_is_wanted(made, wanted):
    fold = Fold(wanted, 0.8)
    for number, kind in enumerate(made):
        fold.add(attempt(number, kind))
    counts = fold.counts()
    assert counts["attempts"] == (
        counts["accepted"]
        + counts["declined"]
        + sum(counts["rejected"].values())
        + sum(counts["failed"].values())
    )
    assert counts["accepted"] == len(fold.queries) <= wanted
    if counts["accepted"] < wanted:
        assert counts["attempts"] == len(made)


def test_a_text_like_an_earlier_one_is_found():
    seen = NearDuplicates(0.8)
    text = (
        "plot the yearly rainfall of the three stations as one smooth line per station"
    )
    seen.add(text)
    assert seen.holds_like(text.upper() + "!")
    assert not seen.holds_like("plot the yearly rainfall of two gauges")
