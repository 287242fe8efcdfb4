"""How well the steps of a chain are aligned with its source (ROSCOE, arXiv 2212.07919)."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'“(]?[A-Z0-9$])")


def align(steps: Vectors, source: Vectors) -> Vectors:
    """The alignment [n] of each step [n, d] with the source's sentences [m, d], unit vectors.

    r-align(h_i -> s) = (1 + max_j cos(h_i, s_j)) / 2, from 0 to 1.
    """
    cosines = (steps @ source.T).max(axis=1)
    return np.asarray(np.clip((1 + cosines) / 2, 0, 1), np.float32)


def faithfulness(steps: Vectors, source: Vectors) -> float:
    """Faithfulness-Step (h -> s): the mean of r-align(h_i -> s) over the chain's N steps.

    1/N sum_i r-align(h_i -> s), from 0 to 1: 1 where every step says what a sentence of the source
    says. `steps` [n, d] and `source` [m, d] are unit vectors.
    """
    return float(align(steps, source).mean())


def split_sentences(text: str) -> tuple[str, ...]:
    """The sentences of a text, where a full stop or its like stands before a capital or digit."""
    parts = (part.strip() for part in _SENTENCE_END.split(text))
    return tuple(part for part in parts if part)
