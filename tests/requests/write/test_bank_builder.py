import tracemalloc
from secrets import token_hex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.small_disk import small_disk
from tests.world import adds_up
from toolbank.bank.records import AttemptRecord, Query
from toolbank.requests.write.bank_builder import Attempt, BankBuilder
from toolbank.system.errors import ToolbankError

kinds = st.sampled_from(["accepted", "same", "declined", "rejected", "failed"])


def attempt(number, kind, text="", detail=""):
    keys = {"attempt": number, "requests": (f"key {number}",)}
    if kind not in ("accepted", "same"):
        keys |= {"outcome": kind, "reason": "because", "detail": detail}
        return Attempt(AttemptRecord(**keys))
    text = text or ("a text that comes again" if kind == "same" else f"{number} " * 9)
    query = Query(id=str(number), query=text, draft=text, tools=("a",))
    return Attempt(AttemptRecord(**keys, outcome="accepted", query_id=query.id), query)


def build(attempts, wanted=None):
    builder = BankBuilder(wanted, 0.8)
    for one in attempts:
        builder.accept(one)
    return builder


@given(st.lists(kinds, max_size=30), st.randoms(), st.integers(1, 12))
def test_the_bank_is_the_same_in_whatever_order_attempts_come(made, random, wanted):
    attempts = [attempt(number, kind) for number, kind in enumerate(made)]
    in_order = build(attempts, wanted)
    random.shuffle(attempts)
    shuffled = build(attempts, wanted)
    assert list(shuffled.queries) == list(in_order.queries)
    assert list(shuffled.ended) == list(in_order.ended)
    assert shuffled.losses.examples == in_order.losses.examples
    counts = shuffled.counts()
    assert counts == in_order.counts()
    assert adds_up(counts)
    assert counts["accepted"] == len(in_order.queries) <= wanted
    assert counts["accepted"] == wanted or counts["attempts"] == len(made)


def test_no_example_of_a_reason_is_kept_twice():
    details = enumerate(["one", "one", "two", "one", "three", "four"])
    builder = build(attempt(n, "rejected", detail=detail) for n, detail in details)
    assert builder.losses.examples == {"because": ["one", "two", "three"]}


def test_every_attempt_that_counts_leaves_a_row_with_its_calls():
    made = enumerate(["same", "declined", "same", "failed", "accepted"])
    builder = build(attempt(number, kind) for number, kind in made)
    rows = [
        (row.outcome, row.reason, row.detail, row.query_id) for row in builder.ended
    ]
    assert rows == [
        ("accepted", "", "", "0"),
        ("declined", "because", "", None),
        ("rejected", "near-duplicate", "like 0", None),
        ("failed", "because", "", None),
        ("accepted", "", "", "4"),
    ]
    assert [row.requests for row in builder.ended] == [(f"key {n}",) for n in range(5)]


def test_candidates_that_wait_for_an_earlier_attempt_are_counted():
    made = ((3, "accepted"), (1, "declined"), (2, "accepted"))
    builder = build([attempt(number, kind) for number, kind in made], 2)
    assert (builder.waiting_candidates, builder.accepted, builder.attempts) == (2, 0, 0)
    builder.accept(attempt(0, "rejected"))
    assert (builder.waiting_candidates, builder.accepted, builder.attempts) == (0, 2, 4)
    assert builder.is_full


def test_what_is_accepted_takes_no_room_in_memory():
    builder = BankBuilder(None, 0.8)

    def grow(first, last):
        for number in range(first, last):
            words = " ".join(f"{number}-{place}" for place in range(20))
            builder.accept(attempt(number, "accepted", words))
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = grow(0, 100)
        assert (grow(100, 400) - before) / 300 < 100
    finally:
        tracemalloc.stop()
    assert [int(query.id) for query in builder.queries] == list(range(400))


def test_no_attempt_is_begun_too_far_ahead_of_one_that_takes_long(monkeypatch):
    monkeypatch.setattr("toolbank.requests.write.bank_builder._WINDOW", 3)
    builder = build(attempt(number, "accepted") for number in (1, 2))
    assert not builder.has_room_for(3)
    builder.accept(attempt(0, "declined"))
    assert builder.has_room_for(5)
    assert not builder.has_room_for(6)


def test_a_full_folder_for_temporary_files_is_told(tmp_path, monkeypatch):
    with small_disk(tmp_path / "small", 100):
        monkeypatch.setenv("TMPDIR", str(tmp_path / "small"))
        with pytest.raises(ToolbankError, match="TMPDIR"):
            build(attempt(n, "accepted", token_hex(100)) for n in range(2000))
