"""Problems with a chain of steps that solves each, read from JSONL files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from toolbank.papers.steps.perturb import Steps
from toolbank.requests.quality.texts import split_sentences
from toolbank.system.errors import InputError
from toolbank.system.files import get_id, get_text, get_texts, read_lines


@dataclass(frozen=True)
class ReasoningProblem:
    """A question with its facts, and the reference chain.

    `dataset` is the name of its file, `source` the sentences of question and facts.
    """

    dataset: str
    id: str
    source: tuple[str, ...]
    steps: Steps

    @property
    def context(self) -> str:
        """The source as one text."""
        return " ".join(self.source)


def join_steps(steps: Sequence[str]) -> str:
    """Join a chain into the text to embed."""
    return " ".join(steps)


def read_problems(folder: Path) -> list[ReasoningProblem]:
    """Read the problems of all JSONL files of a folder, sorted by name.

    A line has `question` and `steps`, and may have `id` and `context`, a list of facts. Problems
    whose steps are all blank are skipped.

    Raises:
        InputError: there is no such file, or one is unreadable or has broken lines.
    """
    files = sorted(folder.glob("*.jsonl"))
    if not files:
        raise InputError(
            f"{folder}: no .jsonl file there. Each line is a problem: "
            '{"question": "...", "steps": ["...", "..."]}.'
        )
    found = []
    for file in files:
        found += [
            problem
            for problem in read_lines(file, lambda row, n: _parse(row, n, file.stem))  # noqa: B023
            if problem.steps
        ]
    if not found:
        raise InputError(f"{folder}: no problem there has a step.")
    return found


def halve(
    problems: Sequence[ReasoningProblem], seed: int
) -> tuple[list[ReasoningProblem], list[ReasoningProblem]]:
    """Split problems into a half to train on and a held-out one, each shuffled by the seed.

    Problems with the same context are in the same half.
    """
    by_context: dict[str, list[ReasoningProblem]] = {}
    for problem in problems:
        by_context.setdefault(problem.context, []).append(problem)
    groups = list(by_context.values())
    Random(f"{seed}:halves").shuffle(groups)
    middle = (len(groups) + 1) // 2
    trained, held_out = (
        [problem for group in part for problem in group]
        for part in (groups[:middle], groups[middle:])
    )
    return trained, held_out


def draw_others(
    problems: Sequence[ReasoningProblem], seed: int
) -> list[ReasoningProblem]:
    """Draw another problem of its dataset for each problem; itself if there is no other."""
    by_dataset: dict[str, list[ReasoningProblem]] = {}
    for problem in problems:
        by_dataset.setdefault(problem.dataset, []).append(problem)
    for dataset, found in by_dataset.items():
        Random(f"{seed}:others:{dataset}").shuffle(found)
    following = {
        id(problem): found[(place + 1) % len(found)]
        for found in by_dataset.values()
        for place, problem in enumerate(found)
    }
    return [following[id(problem)] for problem in problems]


def _parse(row: dict[str, Any], number: int, dataset: str) -> ReasoningProblem:
    facts = get_texts(row, "context") if "context" in row else ()
    return ReasoningProblem(
        dataset,
        get_id(row, number),
        (*split_sentences(get_text(row, "question")), *facts),
        tuple(step for step in get_texts(row, "steps") if step.strip()),
    )
