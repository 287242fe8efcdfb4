"""What is trained on: instructions beside others of their task, and of tasks that are nearly theirs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

import numpy as np

from toolbank.encoders.finetune_data import Rows
from toolbank.encoders.instructions.tasks import Task

_Key = TypeVar("_Key")

_TRIES = 20
"""Draws before all places are looked through."""


def draw_rows(
    tasks: Sequence[Task], positives: int, hard_negatives: bool, seed: int
) -> Rows:
    """Positions [n_rows, 2 or 4] of an instruction, one of its task, and hard negatives.

    So many rows for each instruction whose task another one has. The hard negatives share with it
    the verb alone, and the noun alone. Where none does, the positive stands in their place.
    """
    random = Random(seed)
    of_task = _group(tasks, lambda task: task)
    of_verb = _group(tasks, lambda task: task.verb)
    of_noun = _group(tasks, lambda task: task.noun)

    def draw(places: Sequence[int], fits: Callable[[int], bool], instead: int) -> int:
        for _ in range(_TRIES):
            if fits(place := random.choice(places)):
                return place
        fitting = [place for place in places if fits(place)]
        return random.choice(fitting) if fitting else instead

    def draw_row(place: int) -> list[int]:
        task = tasks[place]
        positive = draw(of_task[task], lambda other: other != place, place)
        if not hard_negatives:
            return [place, positive]
        alike = (of_verb[task.verb], of_noun[task.noun])
        negatives = (draw(g, lambda o: tasks[o] != task, positive) for g in alike)
        return [place, positive, *negatives]

    rows = [
        draw_row(place)
        for _ in range(positives)
        for place, task in enumerate(tasks)
        if len(of_task[task]) > 1
    ]
    return np.array(rows, np.int64).reshape(len(rows), 4 if hard_negatives else 2)


def hold_back(tasks: Sequence[Task], share: float, least: int, seed: int) -> list[bool]:
    """Which instructions are of tasks held back: that share of the tasks with so many at least."""
    of_task = _group(tasks, lambda task: task)
    large = sorted(task for task, places in of_task.items() if len(places) >= least)
    held = set(Random(seed).sample(large, round(share * len(large))))
    return [task in held for task in tasks]


def _group(tasks: Sequence[Task], key: Callable[[Task], _Key]) -> dict[_Key, list[int]]:
    groups: dict[_Key, list[int]] = defaultdict(list)
    for place, task in enumerate(tasks):
        groups[key(task)].append(place)
    return groups
