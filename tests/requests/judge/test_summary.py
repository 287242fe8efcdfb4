import pytest

from toolbank.requests.judge.summary import Judgement, VerdictShare, summarise


def test_orders_that_differ_are_a_tie_and_lower_the_consistency():
    summary = summarise(
        [
            Judgement("fluency", "win", "win"),
            Judgement("fluency", "win", "lose"),
            Judgement("fluency", "lose", "lose"),
            Judgement("fluency", "tie", "tie"),
        ]
    )
    counts = [getattr(summary, verdict).count for verdict in ("win", "tie", "lose")]
    assert counts == [1, 2, 1]
    assert summary.consistency == 0.75
    assert summary.n == 4


def test_a_pair_with_one_verdict_missing_is_counted_by_reason_and_not_judged():
    summary = summarise(
        [
            Judgement("fluency", "win", None, ("unreadable-reply",)),
            Judgement("fluency", None, None, ("timeout", "timeout")),
            Judgement("fluency", "win", "win"),
        ]
    )
    assert summary.n == 1
    assert summary.failed == {"timeout": 2, "unreadable-reply": 1}
    assert summary.win.share == 1


def test_nothing_judged_has_no_shares():
    summary = summarise([])
    assert summary.n == 0
    assert summary.win == VerdictShare(0, None, None, None)
    assert summary.consistency is None


def test_the_sign_test_leaves_ties_out():
    rows = [Judgement("fluency", verdict, verdict) for verdict in ("win", "tie")]
    # 8 wins and no loss: 2 / 2**8.
    assert summarise(rows * 8).p == pytest.approx(2 / 256)
    assert summarise([rows[1]]).p is None
    balanced = [*rows, Judgement("fluency", "lose", "lose")]
    assert summarise(balanced).p == 1
