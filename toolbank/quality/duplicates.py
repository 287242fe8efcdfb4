"""Requests that say the same again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolbank.generate.near_duplicates import NearDuplicates
from toolbank.quality.texts import draw

THRESHOLD = 0.8
_MOST = 20_000


@dataclass(frozen=True)
class Duplicates:
    """How many of n requests are like an earlier one: word 3-grams with a Jaccard of `THRESHOLD`."""

    n: int
    count: int
    share: float


def measure_duplicates(texts: Sequence[str], seed: int) -> Duplicates | None:
    """The near-duplicates among texts, or among 20,000 of them; None where there are none."""
    if not texts:
        return None
    drawn = [texts[place] for place in draw(texts, _MOST, seed)]
    found = NearDuplicates(THRESHOLD, drawn.__getitem__)
    count = 0
    for text in drawn:
        count += found.find_like(text) is not None
        found.add(text)
    return Duplicates(len(drawn), count, count / len(drawn))
