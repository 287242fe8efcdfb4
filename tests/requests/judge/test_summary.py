import pytest

from toolbank.requests.judge.summary import Judgement, VerdictShare, summarise


def judged(*rows):
    return summarise(Judgement("fluency", *row) for row in rows)


def test_orders_that_differ_are_a_tie_and_lower_the_consistency():
    summary = judged(("win", "win"), ("win", "lose"), ("lose", "lose"), ("tie", "tie"))
    counts = [getattr(summary, verdict).count for verdict in ("win", "tie", "lose")]
    assert (counts, summary.n, summary.consistency) == ([1, 2, 1], 4, 0.75)


def test_a_pair_with_one_verdict_missing_is_counted_by_reason_and_not_judged():
    summary = judged(
        ("win", None, ("unreadable-reply",)),
        (None, None, ("timeout", "timeout")),
        ("win", "win"),
    )
    assert (summary.n, summary.win.share) == (1, 1)
    assert summary.failed == {"timeout": 2, "unreadable-reply": 1}


def test_nothing_judged_has_no_shares():
    summary = judged()
    assert summary.n == 0
    assert summary.win == VerdictShare(0, None, None, None)
    assert summary.consistency is None


def test_the_sign_test_leaves_ties_out():
    win, tie, lose = (("win", "win"), ("tie", "tie"), ("lose", "lose"))
    # 8 wins and no loss: 2 / 2**8.
    assert judged(*[win, tie] * 8).p == pytest.approx(2 / 256)
    assert judged(tie).p is None
    assert judged(win, tie, lose).p == 1
