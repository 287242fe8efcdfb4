"""Supervised SimCSE on contexts, reference chains and perturbed ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from toolbank.encoders.finetune_data import Rows
from toolbank.encoders.locate import locate
from toolbank.encoders.model import SentenceEncoder, load_model
from toolbank.encoders.sentence import SentenceConfig
from toolbank.encoders.steps.config import StepsTraining
from toolbank.encoders.steps.perturb import PERTURBATIONS, perturb
from toolbank.encoders.steps.problems import Problem, draw_others, join_steps
from toolbank.system.errors import InputError
from toolbank.training.config import TrainingContext
from toolbank.training.run import Training, train_encoder


@dataclass(frozen=True)
class TrainedOnSteps:
    """The encoder, how it was trained, and how often each perturbation was a negative."""

    encoder: SentenceEncoder
    training: Training
    negatives: Mapping[str, int]


@dataclass(frozen=True)
class Triples:
    """Texts, and the rows of them that are trained on.

    `rows` [n, 2 + negatives] are positions of a context, its reference chain and perturbations
    of that; `same` [n_texts, 1] numbers the contexts, -1 for what is perturbed: a chain is no
    negative of its own context. `kinds` counts the perturbations.
    """

    texts: tuple[str, ...]
    rows: Rows
    same: Rows
    kinds: Mapping[str, int]


def train_on_steps(
    config: SentenceConfig,
    training: StepsTraining,
    problems: Sequence[Problem],
    context: TrainingContext,
) -> TrainedOnSteps:
    """Train a copy of an encoder: a context lies near its chain, and far from perturbed ones.

    Supervised SimCSE (arXiv 2104.08821, eq. 5) on the triples of ROSCOE (arXiv 2212.07919).

    Raises:
        InputError: no chain can be perturbed, or the encoder can't be had or trained.
    """
    from toolbank.encoders.ranking_loss import MaskedRankingLoss, SharedTools

    triples = make_triples(config, problems, training.negatives, context.seed)
    model = load_model(locate(config))
    model.max_seq_length = min(
        training.max_length, model.tokenizer.model_max_length or training.max_length
    )
    shared = SharedTools(triples.rows, triples.same)
    trained = train_encoder(
        model,
        triples.texts,
        triples.rows,
        MaskedRankingLoss(model, shared, training.scale),
        training,
        context,
        title="encoder of steps",
    )
    return TrainedOnSteps(SentenceEncoder(model, config), trained, triples.kinds)


def make_triples(
    config: SentenceConfig, problems: Sequence[Problem], negatives: int, seed: int
) -> Triples:
    """A row a problem whose chain can be perturbed, with so many perturbations of it.

    Their kinds differ while there are others that apply. The same seed gives the same rows.

    Raises:
        InputError: no chain can be perturbed.
    """
    others = draw_others(problems, seed)
    texts: dict[tuple[str, bool], int] = {}
    same: list[int] = []
    contexts: dict[str, int] = {}
    rows, counts = [], Counter[str]()

    def place(text: str, number: int) -> int:
        # A text that is a chain and a perturbed one, too, is there twice.
        key = (text, number < 0)
        if key not in texts:
            texts[key] = len(texts)
            same.append(number)
        return texts[key]

    for problem, other in zip(problems, others, strict=True):
        drawn = _draw(problem, other, negatives, f"{seed}:train:{problem.id}")
        if not drawn:
            continue
        number = contexts.setdefault(problem.context, len(contexts))
        chain = config.as_document(join_steps(problem.steps))
        row = [place(config.as_query(problem.context), number), place(chain, number)]
        for kind, text in drawn:
            counts[kind] += 1
            row.append(place(config.as_document(text), -1))
        rows.append(row)
    if not rows:
        raise InputError(
            "No chain of these problems can be perturbed, so there is nothing to learn from. Give "
            "problems with more or longer steps."
        )
    return Triples(
        tuple(text for text, _ in texts),
        np.array(rows, np.int64),
        np.array(same, np.int64)[:, None],
        {kind: counts[kind] for kind in PERTURBATIONS},
    )


def _draw(
    problem: Problem, other: Problem, count: int, seed: str
) -> list[tuple[str, str]]:
    """So many perturbed chains, each with its kind; none where no kind applies."""
    order = Random(seed).sample(list(PERTURBATIONS), len(PERTURBATIONS))
    drawn: list[tuple[str, str]] = []
    turn = 0
    while len(drawn) < count:
        before = len(drawn)
        for kind in order:
            steps = perturb(kind, problem.steps, other.steps, f"{seed}:{turn}")
            if steps is not None and len(drawn) < count:
                drawn.append((kind, join_steps(steps)))
        if len(drawn) == before:
            return []
        turn += 1
    return drawn
