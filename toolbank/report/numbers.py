"""Counts of a bank, as the report's tables and bars show them."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from toolbank.bank.bank import Bank
from toolbank.bank.records import Query, Tool

_MOST_USES = 10


@dataclass(frozen=True)
class Bar:
    """A count with its label; `share` is its part of the whole, 0 to 1."""

    label: str
    count: int
    share: float
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class Coverage:
    """How the queries use the tools. `uses` counts queries by position in the bank's tools."""

    uses: tuple[int, ...]
    histogram: tuple[Bar, ...]
    never: tuple[Tool, ...]
    strangers: int

    @property
    def used(self) -> int:
        """Tools that at least one query uses."""
        return len(self.uses) - len(self.never)


def count_tools(queries: Sequence[Query]) -> list[Bar]:
    """Queries by their number of tools, from the fewest to the most, gaps included."""
    counts = Counter(len(query.tools) for query in queries)
    if not counts:
        return []
    numbers = range(min(counts), max(counts) + 1)
    return [Bar(str(n), counts[n], counts[n] / len(queries)) for n in numbers]


def cover(bank: Bank) -> Coverage:
    """Count the queries that use each tool; an alias counts for its tool."""
    uses = [0] * len(bank.tools)
    strangers: set[str] = set()
    for query in bank.queries:
        for position in {
            bank.index[name] for name in query.tools if name in bank.index
        }:
            uses[position] += 1
        strangers.update(name for name in query.tools if name not in bank.index)
    grouped = Counter(min(count, _MOST_USES) for count in uses)
    last = max(grouped, default=-1)
    histogram = [
        Bar(f"{n}+" if n == _MOST_USES else str(n), grouped[n], grouped[n] / len(uses))
        for n in range(last + 1)
    ]
    never = [tool for tool, count in zip(bank.tools, uses, strict=True) if count == 0]
    return Coverage(tuple(uses), tuple(histogram), tuple(never), len(strangers))


def follow_attempts(info: Mapping[str, Any]) -> list[Bar]:
    """What became of the attempts: accepted first, then every reason, the largest first."""
    counts = info.get("counts") or {}
    examples = (info.get("generate") or {}).get("examples") or {}
    attempts = counts.get("attempts", 0)
    if not attempts:
        return []
    outcomes = [("accepted", "accepted", counts.get("accepted", 0))]
    if counts.get("declined"):
        outcomes.append(("declined", "declined by the writer", counts["declined"]))
    for kind in ("rejected", "failed"):
        reasons = sorted(
            (counts.get(kind) or {}).items(), key=lambda item: (-item[1], item[0])
        )
        outcomes += [(reason, f"{kind}: {reason}", count) for reason, count in reasons]
    return [
        Bar(label, count, count / attempts, tuple(examples.get(key) or ()))
        for key, label, count in outcomes
    ]


def count_endings(info: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Attempts that came to nothing, by how they ended: declined, rejected or failed."""
    counts = info.get("counts") or {}
    return [
        ("declined", counts.get("declined", 0)),
        *(
            (kind, sum((counts.get(kind) or {}).values()))
            for kind in ("rejected", "failed")
        ),
    ]


def sample_queries(queries: Sequence[Query], n: int, seed: int) -> list[Query]:
    """Up to n queries at random by the seed, in the bank's order."""
    chosen = Random(f"{seed}:report").sample(range(len(queries)), min(n, len(queries)))
    return [queries[position] for position in sorted(chosen)]


def count_words(texts: Sequence[str]) -> list[int]:
    """Words of each text."""
    return [len(text.split()) for text in texts]


def median_words(texts: Sequence[str]) -> float | None:
    """The median number of words, None without texts."""
    return statistics.median(count_words(texts)) if texts else None
