"""The perturbations of chains of steps, by name (ROSCOE, arXiv 2212.07919)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType

from toolbank.encoders.steps.formulas import (
    change_numbers,
    change_operations,
    shuffle_numbers,
    shuffle_operations,
)
from toolbank.encoders.steps.order import (
    Steps,
    duplicate,
    hallucinate,
    remove,
    shuffle,
    swap,
)
from toolbank.encoders.steps.words import break_grammar, negate

Perturbation = Callable[[Steps, Random, Steps], Steps | None]

PERTURBATIONS: Mapping[str, Perturbation] = MappingProxyType(
    {
        "remove": remove,
        "duplicate": duplicate,
        "swap": swap,
        "shuffle": shuffle,
        "negate": negate,
        "hallucinate": hallucinate,
        "grammar": break_grammar,
        "shuffle-numbers": shuffle_numbers,
        "change-numbers": change_numbers,
        "shuffle-operations": shuffle_operations,
        "change-operations": change_operations,
    }
)
"""Each takes a chain, a source of chance, and the steps of another chain.

It gives the chain with that one thing changed, or None where it can't be.
"""


def perturb(kind: str, steps: Steps, others: Steps, seed: str) -> Steps | None:
    """The chain perturbed in this way: the same for the same seed. None where it can't be."""
    return PERTURBATIONS[kind](steps, Random(f"{seed}:{kind}"), others)
