"""What a comparison says of two banks, in its first sentences."""

import pytest

from toolbank.evaluation.paired_figures import FigureKind, PairedFigure
from toolbank.report.comparison import BankComparison, Downstream, format_comparison

RECALL = FigureKind("Downstream", "R@5 of tool2vec", "share", "higher")
WORDS = FigureKind("Wording", "words per request", "number", "")
DOWNSTREAM = Downstream("on", 480, {"old": 2, "new": 0}, 0, 3, 800, 0)


def compare(*figures):
    data = (0, 60, "", (60, 58), list(figures), None, DOWNSTREAM)
    return BankComparison("old", "new\u001b[2J", *data)


@pytest.mark.parametrize(("better", "sign"), [("B", 1), ("A", -1)])
def test_the_better_bank_is_named_with_its_gain(better, sign):
    low, high = sorted((sign * 0.004, sign * 0.038))
    recall = PairedFigure(RECALL, 0.4, 0.4 + sign * 0.021, 480, low, high, 0.01, 0.02)
    verdict, gain, *more = compare(recall).summarise()
    assert f"{better} (" in verdict
    assert "1 of 1 figure" in verdict
    ends = "+0.4 to +3.8" if sign > 0 else "-3.8 to -0.4"
    parts = (f"{sign * 2.1:+.1f} points ({ends})", "3 seeds, 480 requests")
    for part in (f"{better} is better", *parts):
        assert part in gain
    assert not more


def test_nothing_is_better_where_a_difference_is_not_sure():
    recall = PairedFigure(RECALL, 0.4, 0.42, 480, -0.01, 0.05, 0.2, 0.2)
    wordy = PairedFigure(WORDS, 30.0, 45.0, 60, 12.0, 18.0, 0.001, 0.002)
    verdict, unsure, differ = compare(recall, wordy).summarise()
    assert "Neither" in verdict
    assert "no sure difference, +2.0 points (-1.0 to +5.0)" in unsure
    assert "better" not in differ


def test_the_table_marks_what_holds_and_steers_no_terminal():
    wordy = PairedFigure(WORDS, 30.0, 45.0, 60, 12.0, 18.0, 0.001, 0.002)
    text = format_comparison(compare(wordy, PairedFigure(RECALL, None, 0.4, 3)))
    [line] = (one for one in text.splitlines() if "words per request  " in one)
    assert line.split()[3:] == ["30", "45", "+15", "(+12", "to", "+18)", "0.002", "*"]
    assert "2 of old, 0 of new" in " ".join(text.split())
    assert "\u001b" not in text
