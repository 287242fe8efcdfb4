"""Whether the longer text wins: verdicts by how much longer the query is than the other text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from toolbank.judge.pairs import Pair
from toolbank.judge.summary import CriterionSummary, Judgement, summarise

# Up to which ratio of the query's words to the other's a pair is of a part; the last has no end.
_PARTS = {"shorter": 0.8, "as long": 1.25, "longer": float("inf")}


@dataclass(frozen=True)
class LengthPart:
    """Pairs whose query is shorter than the other text, about as long, or longer, in words.

    `n` is how many there are, and `ratio` the mean length of the query in those of the other
    text, None without any.
    """

    part: str
    n: Annotated[int, Field(ge=0)]
    ratio: Annotated[float, Field(ge=0)] | None
    criteria: dict[str, CriterionSummary]

    def __post_init__(self) -> None:
        if (self.ratio is None) != (self.n == 0):
            raise ValueError("ratio is a number where n is not 0")


def compare_lengths(
    pairs: Sequence[Pair], judgements: Sequence[Sequence[Judgement]]
) -> list[LengthPart]:
    """Sum up the verdicts apart: shorter by a fifth and more, about as long, longer by a quarter."""
    found: dict[str, list[tuple[float, Sequence[Judgement]]]] = {
        name: [] for name in _PARTS
    }
    for pair, rows in zip(pairs, judgements, strict=True):
        if rows:
            ratio = _count_words(pair.query.text) / _count_words(pair.other.text)
            part = next(name for name, end in _PARTS.items() if ratio <= end)
            found[part].append((ratio, rows))
    criteria = [row.criterion for row in next(filter(None, judgements), ())]
    return [
        LengthPart(
            part,
            len(of_part),
            sum(ratio for ratio, _ in of_part) / len(of_part) if of_part else None,
            {
                criterion: summarise(rows[position] for _, rows in of_part)
                for position, criterion in enumerate(criteria)
            },
        )
        for part, of_part in found.items()
    ]


def _count_words(text: str) -> int:
    return len(text.split()) or 1
