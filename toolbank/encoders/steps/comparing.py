"""How often a reference chain lies nearer to its context than a perturbation of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolbank.encoders.base import Encoder
from toolbank.encoders.steps.alignment import Vectors, faithfulness
from toolbank.encoders.steps.order import Steps
from toolbank.encoders.steps.perturb import PERTURBATIONS, perturb
from toolbank.encoders.steps.problems import Problem, draw_others, join_steps

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Compared:
    """Each problem's chain against its perturbations, a column a kind of `PERTURBATIONS`.

    `nearer` [n, kinds] is 1 where the context's cosine with the reference chain is above that
    with the perturbed one, else 0; NaN where the kind does not apply. `faithful` [n, kinds] is
    Faithfulness-Step of the perturbed chains, NaN likewise; `reference` [n] of the others.
    """

    nearer: Values
    faithful: Values
    reference: Values

    @property
    def of_problems(self) -> Values:
        """The share [n] of its perturbations that each chain beats; NaN where none applies."""
        applies = ~np.isnan(self.nearer)
        won = np.where(applies, self.nearer, 0).sum(axis=1)
        counts = applies.sum(axis=1)
        return np.where(counts > 0, won / np.maximum(counts, 1), np.nan)


def compare_chains(
    encoder: Encoder, problems: Sequence[Problem], seed: int
) -> Compared:
    """Perturb each problem's chain once in every way that applies, and compare the cosines."""
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
    return Compared(nearer, faithful[:, 1:], faithful[:, 0])


def _encode(
    encode: Callable[[Sequence[str]], Vectors], texts: set[str]
) -> dict[str, Vectors]:
    order = sorted(texts)
    return dict(zip(order, encode(order), strict=True))
