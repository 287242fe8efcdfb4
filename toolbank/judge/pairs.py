"""Which texts are compared with which."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from toolbank.bank.bank import Bank
from toolbank.judge.config import JudgeConfig
from toolbank.judge.sides import Side, make_sides, read_sides


@dataclass(frozen=True)
class Pair:
    """A query of the bank and what it is compared with."""

    query: Side
    other: Side

    @property
    def is_identical(self) -> bool:
        """Whether both texts are the same, so that there is nothing to judge."""
        return self.query.text == self.other.text


def draw_pairs(bank: Bank, config: JudgeConfig, seed: int) -> list[Pair]:
    """Up to `config.pairs` pairs, drawn by the seed; every query stands in one at most.

    More pairs of the same seed begin with the fewer ones. Against "draft", a query meets its
    own draft, and queries that have none are left out. Against another dataset, queries and its
    requests are paired at random.

    Raises:
        InputError: the other dataset can't be read, holds no request, or has broken lines.
    """
    random = Random(f"{seed}:judge")
    if config.against == "draft":
        pairs = [
            Pair(side, Side(side.id, query.draft, query.tools))
            for side, query in zip(make_sides(bank.queries), bank.queries, strict=True)
            if query.draft.strip()
        ]
        random.shuffle(pairs)
    else:
        queries, others = make_sides(bank.queries), read_sides(config.against)
        random.shuffle(queries)
        random.shuffle(others)
        pairs = [
            Pair(query, other) for query, other in zip(queries, others, strict=False)
        ]
    return pairs[: config.pairs]
