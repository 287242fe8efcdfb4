"""Train an encoder on contexts, reference chains and perturbed ones (supervised SimCSE)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from toolbank.encoders.base import Encoder
from toolbank.encoders.finetune_data import Rows
from toolbank.encoders.location import locate
from toolbank.encoders.model import SentenceEncoder, load_model, state_prompts
from toolbank.encoders.sentence import SentenceConfig
from toolbank.papers.steps.perturb import PERTURBATIONS, Steps, perturb
from toolbank.papers.steps.problems import ReasoningProblem, draw_others, join_steps
from toolbank.requests.quality.texts import Vectors, faithfulness
from toolbank.system.errors import InputError
from toolbank.training.config import TrainingContext, TrainingWithoutValidation
from toolbank.training.run import Training, train_encoder


class StepsTraining(TrainingWithoutValidation):
    """How an encoder learns to tell a chain of steps from its perturbations.

    The defaults are the paper's where it gives them: five epochs of triples, 512 tokens.
    """

    epochs: float = Field(default=5, gt=0, description="passes over the problems")
    batch_size: int = Field(default=32, ge=2, description="problems per device")
    max_length: int = Field(default=512, ge=8, description="tokens per text")
    negatives: int = Field(
        default=1, ge=1, description="perturbations per chain, of different kinds"
    )
    scale: float = Field(
        default=20, gt=0, description="of cosines: 1 / the temperature of SimCSE"
    )


@dataclass(frozen=True)
class Triples:
    """Texts, and the rows of a training.

    `rows` [n, 2 + negatives] are positions of a context, its reference chain, and perturbed chains.
    `same` [n_texts, 1] numbers the contexts, with -1 for perturbed chains, so that a chain is not a
    negative of its own context. `kinds` counts the perturbations.
    """

    texts: tuple[str, ...]
    rows: Rows
    same: Rows
    kinds: Mapping[str, int]


def train_on_steps(
    config: SentenceConfig,
    training: StepsTraining,
    problems: Sequence[ReasoningProblem],
    context: TrainingContext,
) -> tuple[SentenceEncoder, Training, Mapping[str, int]]:
    """Train a copy of an encoder so that a context is near its chain and far from perturbed ones.

    Also return how often each perturbation was a negative.
    Supervised SimCSE (arXiv 2104.08821, eq. 5) on the triples of ROSCOE (arXiv 2212.07919).

    Raises:
        InputError: no chain can be perturbed, or the encoder cannot be read or trained.
    """
    from toolbank.encoders.ranking_loss import MaskedRankingLoss, SharedTools

    config = state_prompts(config)
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
    return SentenceEncoder(model, config), trained, triples.kinds


def make_triples(
    config: SentenceConfig,
    problems: Sequence[ReasoningProblem],
    negatives: int,
    seed: int,
) -> Triples:
    """Make a row with `negatives` perturbed chains per problem whose chain can be perturbed.

    Their kinds differ while others apply. The same seed gives the same rows.

    Raises:
        InputError: no chain can be perturbed.
    """
    others = draw_others(problems, seed)
    texts: dict[tuple[str, bool], int] = {}
    same: list[int] = []
    contexts: dict[str, int] = {}
    rows, counts = [], Counter[str]()

    def place(text: str, number: int) -> int:
        # A text that is both a chain and a perturbed one occurs twice.
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
            "No chain of these problems can be perturbed, so there is nothing to learn from. Add "
            "problems with more or longer steps."
        )
    return Triples(
        tuple(text for text, _ in texts),
        np.array(rows, np.int64),
        np.array(same, np.int64)[:, None],
        {kind: counts[kind] for kind in PERTURBATIONS},
    )


def _draw(
    problem: ReasoningProblem, other: ReasoningProblem, count: int, seed: str
) -> list[tuple[str, str]]:
    """Draw `count` perturbed chains, each with its kind; none if no kind applies."""
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


Values = NDArray[np.float64]


@dataclass(frozen=True)
class ChainComparison:
    """Each problem's chain compared with its perturbations, in columns of `PERTURBATIONS`.

    `nearer` [n, kinds] is 1 if the context's cosine with the reference chain is above that with the
    perturbed one, else 0, and NaN if the kind does not apply. `faithful` [n, kinds] is the
    Faithfulness-Step of perturbed chains, or NaN; `reference` [n] is that of reference chains.
    """

    nearer: Values
    faithful: Values
    reference: Values

    @property
    def of_problems(self) -> Values:
        """The share [n] of its perturbations that each chain beats; NaN if none applies."""
        applies = ~np.isnan(self.nearer)
        won = np.where(applies, self.nearer, 0).sum(axis=1)
        counts = applies.sum(axis=1)
        return np.where(counts > 0, won / np.maximum(counts, 1), np.nan)


def compare_chains(
    encoder: Encoder, problems: Sequence[ReasoningProblem], seed: int
) -> ChainComparison:
    """Perturb each chain once in every way that applies, and compare the cosines."""
    rows: list[list[Steps | None]] = [
        [
            one.steps,
            *(
                perturb(kind, one.steps, other.steps, f"{seed}:test:{one.id}")
                for kind in PERTURBATIONS
            ),
        ]
        for one, other in zip(problems, draw_others(problems, seed), strict=True)
    ]
    contexts = encoder.encode_queries([one.context for one in problems])
    found = {steps for row in rows for steps in row if steps is not None}
    sentences = _encode(
        encoder.encode_queries, {s for one in problems for s in one.source}
    )
    chains = _encode(encoder.encode_documents, {join_steps(steps) for steps in found})
    single = _encode(
        encoder.encode_documents, {step for steps in found for step in steps}
    )
    cosines, faithful = (np.full((len(rows), len(rows[0])), np.nan) for _ in range(2))
    for i, (one, row) in enumerate(zip(problems, rows, strict=True)):
        source = np.stack([sentences[text] for text in one.source])
        for j, steps in enumerate(row):
            if steps is not None:
                cosines[i, j] = contexts[i] @ chains[join_steps(steps)]
                vectors = np.stack([single[step] for step in steps])
                faithful[i, j] = faithfulness(vectors, source)
    nearer = np.where(np.isnan(cosines[:, 1:]), np.nan, cosines[:, :1] > cosines[:, 1:])
    return ChainComparison(nearer, faithful[:, 1:], faithful[:, 0])


def _encode(
    encode: Callable[[Sequence[str]], Vectors], texts: set[str]
) -> dict[str, Vectors]:
    order = sorted(texts)
    return dict(zip(order, encode(order), strict=True))
