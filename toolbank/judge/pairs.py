"""Which texts are compared with which."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from toolbank.bank import Bank, Query
from toolbank.errors import InputError
from toolbank.judge.config import JudgeConfig


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


def draw_pairs(bank: Bank, config: JudgeConfig, seed: int) -> list[Pair]:
    """Up to `config.pairs` pairs, drawn by the seed; every query stands in one at most.

    More pairs of the same seed begin with the fewer ones. Against "draft", a query meets its
    own draft, and queries that have none are left out. Against a file, queries and lines are
    paired at random.

    Raises:
        InputError: the file is missing, or a line of it is not an object with a "query".
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
        InputError: the file is missing, or a line of it is not an object with a "query".
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: can't read ({error}).") from error
    sides = [_parse(path, number, line) for number, line in _numbered(lines)]
    if not sides:
        raise InputError(f'{path}: no requests in it. Each line needs a "query".')
    return sides


def _numbered(lines: Iterable[str]) -> Iterable[tuple[int, str]]:
    return ((n, line) for n, line in enumerate(lines, start=1) if line.strip())


def _parse(path: Path, number: int, line: str) -> Side:
    try:
        row = json.loads(line)
        text, tools = row["query"], row.get("tools") or ()
        if not isinstance(text, str) or not text.strip():
            raise TypeError('"query" must be a text that is not empty')
        if not all(isinstance(tool, str) for tool in tools):
            raise TypeError('"tools" must be a list of names')
        return Side(str(row.get("id", number)), text, tuple(tools))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f'{path}, line {number}: not an object with a "query" ({error}). '
            "Mend the line or take it out."
        ) from error


def _side(query: Query) -> Side:
    return Side(query.id, query.query, query.tools)
