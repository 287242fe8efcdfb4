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
    """How an encoder learns that instructions of one task are near each other."""

    epochs: float = Field(default=1, gt=0, description="passes over the rows")
    batch_size: int = Field(default=64, ge=2, description="per device")
    objective: Literal["supervised", "unsupervised"] = Field(
        default="supervised",
        description="unsupervised: SimCSE, an instruction and itself with other dropout",
    )
    positives: int = Field(
        default=1,
        ge=1,
        description="rows per instruction, each with a random positive",
    )
    hard_negatives: bool = Field(
        default=True,
        description="supervised: an instruction that shares only the verb, and one only the noun",
    )
    scale: float = Field(
        default=20, gt=0, description="of cosines: 1 / the temperature of SimCSE"
    )


_Key = TypeVar("_Key")

_TRIES = 20
"""Random draws before all places are checked."""


def draw_rows(
    tasks: Sequence[Task], positives: int, hard_negatives: bool, seed: int
) -> Rows:
    """Draw positions [n_rows, 2 or 4] of an instruction, one of its task, and hard negatives.

    There are `positives` rows per instruction whose task is not unique. The hard negatives share
    only the verb and only the noun; if there are none, the positive takes their place.
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
    """Hold out a share of the tasks with at least `least` instructions: which instructions."""
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
    """Train a sentence encoder, of a name or a folder, on instructions in a prompt.

    `tasks` [n] are those of the instructions [n], unused without supervision. This is supervised
    SimCSE (arXiv 2104.08821, eq. 5) without candidates of the anchor's own task.

    Raises:
        InputError: no two instructions share a task, or the encoder cannot be read or trained.
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
        # Dropout makes two vectors of an instruction that is encoded twice.
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
            "No two of these instructions share a task, so there is nothing to learn from. Add more "
            "instructions."
        )
    trained = train_encoder(
        model, texts, rows, loss, training, context, title="encoder of instructions"
    )
    return model, trained
