"""Which texts are compared with which."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from toolbank.bank.bank import Bank
from toolbank.bank.records import Query
from toolbank.judge.config import JudgeConfig
from toolbank.system.errors import InputError
from toolbank.system.jsonl import get_id, get_text, get_texts, read_lines


@dataclass(frozen=True)
class Side:
    """One text of a pair, with its id and the tools it needs where they are known."""

    id: str
    text: str
    tools: tuple[str, ...] = ()


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
    own draft, and queries that have none are left out. Against a file, queries and lines are
    paired at random.

    Raises:
        InputError: the file can't be read, holds no request, or has broken lines.
    """
    random = Random(f"{seed}:judge")
    if config.against == "draft":
        pairs = [
            Pair(_side(query), Side(query.id, query.draft, query.tools))
            for query in bank.queries
            if query.draft.strip()
        ]
        random.shuffle(pairs)
    else:
        queries, others = (
            [_side(query) for query in bank.queries],
            read_sides(config.against),
        )
        random.shuffle(queries)
        random.shuffle(others)
        pairs = [
            Pair(query, other) for query, other in zip(queries, others, strict=False)
        ]
    return pairs[: config.pairs]


def read_sides(path: Path) -> list[Side]:
    """Read the requests of a JSONL file: "query", and "id" and "tools" where given.

    Raises:
        InputError: the file can't be read, holds no request, or has broken lines.
    """
    sides = read_lines(path, _parse)
    if not sides:
        raise InputError(f'{path}: no requests in it. Each line needs a "query".')
    return sides


def _parse(row: dict[str, Any], number: int) -> Side:
    tools = () if row.get("tools") is None else get_texts(row, "tools")
    return Side(get_id(row, number), get_text(row, "query"), tools)


def _side(query: Query) -> Side:
    return Side(query.id, query.query, query.tools)
