import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from toolbank.papers.planner.evaluate import describe, rouge_lsum, score
from toolbank.papers.planner.language_model import Prediction
from toolbank.papers.planner.plans import PlanStep, RequestPlan, unroll

PIECES = ("call", "a1", "b_c", "to", "the,", "12", "é")
WORDS = st.lists(st.sampled_from(PIECES), max_size=12)


def test_rouge_by_hand():
    # Common: "call book to", 3 of 4 and of 5 words.
    assert rouge_lsum("Call book to win", "call book it to do") == pytest.approx(6 / 9)
    assert rouge_lsum("same words", "Same, words!") == 1
    assert rouge_lsum("", "gold") == 0


@given(WORDS, WORDS)
def test_rouge_is_that_of_rouge_score(said, gold):
    said, gold = " ".join(said), " ".join(gold)
    theirs = RougeScorer(["rougeLsum"]).score(gold, said)["rougeLsum"].fmeasure
    assert rouge_lsum(said, gold) == pytest.approx(theirs)


EXAMPLES = unroll(
    [
        RequestPlan(
            "1", "q", (PlanStep("Call a to x", "a"), PlanStep("Call b to y", "b"))
        ),
        RequestPlan(
            "2", "r", (PlanStep("Call a to z", "a"), PlanStep("Call c to z", "c"))
        ),
    ]
)
SAID = [
    Prediction("Call  a to x\n"),
    Prediction("Call a to y", is_cut=True),
    Prediction("Call nobody to z"),
    Prediction("Think"),
]


def test_the_figures_by_hand():
    found = describe(EXAMPLES, score(EXAMPLES, SAID, {"a", "b", "c"}), 0)
    assert found["steps"] == 4
    assert found["exact_match"] == 1 / 4
    assert found["tool_accuracy"] == 1 / 4
    assert found["tool_hallucination"] == 1 / 4
    assert found["prompts_cut"] == 1 / 4
    assert found["rouge_lsum"] == pytest.approx((1 + 3 / 4 + 3 / 4 + 0) / 4)
    assert found["by_step"]["1"]["tool_accuracy"] == 1 / 2
    assert found["by_step"]["2"]["tool_accuracy"] == 0
    assert found["by_plan_length"].keys() == {"2"}
    # Two plans: of a resample of one alone, its own mean.
    assert found["intervals"]["tool_accuracy"] == (0, 1 / 2)
