"""Contrastive training on the tasks of instructions, and SimCSE without labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np
from pydantic import Field

from toolbank.encoders.finetune_data import Rows
from toolbank.encoders.model import load_model
from toolbank.papers.instructions.data import Task
from toolbank.papers.layers.encoder import put_in_prompt
from toolbank.system.errors import InputError
from toolbank.training.config import TrainingWithoutValidation
from toolbank.training.run import Training, train_encoder

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from toolbank.training.config import TrainingContext


class InstructionsTraining(TrainingWithoutValidation):
    """How an encoder learns that instructions of one task lie near each other."""

    epochs: float = Field(default=1, gt=0, description="passes over the rows")
    batch_size: int = Field(default=64, ge=2, description="of one device")
    objective: Literal["supervised", "unsupervised"] = Field(
        default="supervised",
        description="unsupervised: SimCSE, an instruction and itself with other dropout",
    )
    positives: int = Field(
        default=1,
        ge=1,
        description="rows of each instruction, each with another positive drawn",
    )
    hard_negatives: bool = Field(
        default=True,
        description="for supervised: an instruction that shares the verb alone, and one the noun",
    )
    scale: float = Field(
        default=20, gt=0, description="of cosines; 1 / temperature, as in SimCSE"
    )


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


def train_on_instructions(
    name: str,
    training: InstructionsTraining,
    instructions: Sequence[str],
    tasks: Sequence[Task],
    prompt: str,
    context: TrainingContext,
) -> tuple[SentenceTransformer, Training]:
    """Train a sentence encoder, of a name or a folder, on instructions that stand in a prompt.

    `tasks` [n] are those of the instructions [n]; unsupervised, they are not looked at. Supervised
    SimCSE (arXiv 2104.08821, eq. 5), without the candidates of the anchor's own task.

    Raises:
        InputError: no two instructions are of one task, or the encoder can't be had or trained.
    """
    from sentence_transformers.sentence_transformer.losses import (
        MultipleNegativesRankingLoss,
    )

    from toolbank.encoders.ranking_loss import MaskedRankingLoss, SharedTools

    model = load_model(name)
    longest = min(model.max_seq_length or training.max_length, training.max_length)
    model.max_seq_length = longest
    texts = put_in_prompt(model.tokenizer, instructions, prompt, longest)
    if training.objective == "unsupervised":
        rows = np.repeat(np.arange(len(texts))[:, None], 2, axis=1)
        # An instruction is encoded twice, so that dropout makes two vectors of it.
        loss = MultipleNegativesRankingLoss(model, scale=training.scale)
    else:
        rows = draw_rows(
            tasks, training.positives, training.hard_negatives, context.seed
        )
        numbers = {task: number for number, task in enumerate(dict.fromkeys(tasks))}
        of = np.array([numbers[task] for task in tasks], np.int64)
        loss = MaskedRankingLoss(model, SharedTools(rows, of[:, None]), training.scale)
    if not len(rows):
        raise InputError(
            "No two of these instructions are of one task, so there is nothing to learn from. Give "
            "more of them."
        )
    trained = train_encoder(
        model, texts, rows, loss, training, context, title="encoder of instructions"
    )
    return model, trained
