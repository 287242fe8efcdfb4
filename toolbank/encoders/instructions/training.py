"""Contrastive training on the tasks of instructions, and SimCSE without them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from toolbank.encoders.instructions.config import InstructionsTraining
from toolbank.encoders.instructions.rows import draw_rows
from toolbank.encoders.instructions.tasks import Task
from toolbank.encoders.layers.prompt import put_in_prompt
from toolbank.encoders.model import load_model
from toolbank.system.errors import InputError
from toolbank.training.run import Training, train_encoder

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from toolbank.training.config import TrainingContext


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
