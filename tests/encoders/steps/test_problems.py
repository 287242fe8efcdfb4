import numpy as np
import pytest

from tests.world import write_lines
from toolbank.papers.steps.problems import (
    ReasoningProblem,
    draw_others,
    halve,
    read_problems,
    split_sentences,
)
from toolbank.requests.quality.texts import faithfulness
from toolbank.system.errors import InputError


def test_question_and_facts_are_the_source(tmp_path):
    steps = ["so it does", " "]
    row = {"question": "Does it? Say so.", "context": ["a fact"], "steps": steps}
    write_lines(tmp_path / "b.jsonl", [{**row, "id": "one", "answer": "yes"}])
    others = [{"question": "Why?", "steps": ["so"]}, {**row, "steps": []}]
    write_lines(tmp_path / "a.jsonl", others)
    first, second = read_problems(tmp_path)
    assert first == ReasoningProblem("a", "1", ("Why?",), ("so",))
    assert second == ReasoningProblem(
        "b", "one", ("Does it?", "Say so.", "a fact"), ("so it does",)
    )
    assert second.context == "Does it? Say so. a fact"


def test_broken_lines_and_a_folder_without_problems_are_told(tmp_path):
    with pytest.raises(InputError, match=r"no \.jsonl file"):
        read_problems(tmp_path)
    write_lines(tmp_path / "a.jsonl", [{"question": "Why?", "steps": [" "]}])
    with pytest.raises(InputError, match="no problem there has a step"):
        read_problems(tmp_path)
    lines = [{"question": "Why?"}, {"question": " ", "steps": []}]
    write_lines(tmp_path / "a.jsonl", lines)
    with pytest.raises(InputError, match=r"2 lines are .*\n.*line 1: no \"steps\""):
        read_problems(tmp_path)


def test_sentences_end_before_a_capital():
    assert split_sentences("It costs $1.50, i.e. a lot. Why? 5 ask!") == (
        "It costs $1.50, i.e. a lot.",
        "Why?",
        "5 ask!",
    )


PROBLEMS = [
    ReasoningProblem("ab"[i % 2], str(i), (f"q{i % 15}",), (f"s{i}",))
    for i in range(20)
]


def test_halves_share_no_context_and_foreign_steps_are_of_their_dataset():
    trained, held_out = halve(PROBLEMS, 3)
    assert {p.context for p in trained}.isdisjoint(p.context for p in held_out)
    assert sorted(p.id for p in [*trained, *held_out]) == sorted(p.id for p in PROBLEMS)
    assert halve(PROBLEMS, 3) == (trained, held_out)
    assert halve(PROBLEMS, 4) != (trained, held_out)
    for problem, other in zip(PROBLEMS, draw_others(PROBLEMS, 0), strict=True):
        assert other.dataset == problem.dataset
        assert other is not problem
    assert draw_others(PROBLEMS[:1], 0) == PROBLEMS[:1]


EAST, NORTH, WEST = ([1.0, 0.0], [0.0, 1.0], [-1.0, 0.0])


@pytest.mark.parametrize(
    ("steps", "source", "expected"),
    [
        ([EAST], [EAST, NORTH], 1.0),
        ([WEST], [EAST, NORTH], 0.5),
        ([NORTH], [EAST], 0.5),
        ([WEST], [EAST], 0.0),
        ([EAST, NORTH, WEST], [EAST, NORTH], 2.5 / 3),
    ],
)
def test_it_is_the_mean_nearness_of_steps_to_sentences(steps, source, expected):
    found = faithfulness(np.array(steps, np.float32), np.array(source, np.float32))
    assert found == pytest.approx(expected)
