"""Counts of a bank, as the report's tables and bars show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from toolbank.bank.bank import Bank
from toolbank.bank.records import Query

if TYPE_CHECKING:
    import polars as pl

_MOST_USES = 10
_OUTCOMES = ("accepted", "declined", "rejected", "failed")


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

    @property
    def used(self) -> int:
        """Tools that at least one query uses."""
        return sum(count > 0 for count in self.uses)


def count_tools(queries: Sequence[Query]) -> list[Bar]:
    """Queries by their number of tools, from the fewest to the most, gaps included."""
    return _make_histogram([len(query.tools) for query in queries])


def cover(bank: Bank) -> Coverage:
    """Count the queries that use each tool; an alias counts for its tool."""
    counts = Counter(
        position
        for query in bank.queries
        for position in {bank.index[name] for name in query.tools if name in bank.index}
    )
    uses = tuple(counts[position] for position in range(len(bank.tools)))
    return Coverage(uses, tuple(_make_histogram(uses, most=_MOST_USES)))


def follow_attempts(
    attempts: pl.DataFrame, examples: Mapping[str, Sequence[str]]
) -> list[Bar]:
    """What became of the attempts: accepted first, then every reason, the largest first.

    `examples` are particulars of some attempts by reason, or by outcome where it has none.
    """
    import polars as pl

    outcome, reason = pl.col("outcome"), pl.col("reason")
    gives_reason = outcome.is_in(["rejected", "failed"])
    found = (
        attempts.group_by(
            outcome, reason=pl.when(gives_reason).then(reason).otherwise(outcome)
        )
        .len("count")
        .sort(
            outcome.replace_strict(_OUTCOMES, range(len(_OUTCOMES))),
            "count",
            "reason",
            descending=[False, True, False],
        )
        .with_columns(share=pl.col("count") / attempts.height)
    )
    return [
        Bar(
            _name_ending(outcome, reason), count, share, tuple(examples.get(reason, ()))
        )
        for outcome, reason, count, share in found.iter_rows()
    ]


def count_endings(attempts: pl.DataFrame) -> list[tuple[str, int]]:
    """Attempts that came to nothing, by how they ended: declined, rejected or failed."""
    counts = dict(attempts["outcome"].value_counts().iter_rows())
    return [(name, counts.get(name, 0)) for name in _OUTCOMES[1:]]


def count_splits(queries: Sequence[Query]) -> dict[str, int]:
    """Queries by split, those of no split under "none"; only splits that have some."""
    counts = Counter(query.split or "none" for query in queries)
    return {
        name: counts[name]
        for name in ("train", "validation", "test", "none")
        if name in counts
    }


def sample_queries(queries: Sequence[Query], n: int, seed: int) -> list[Query]:
    """Up to n queries at random by the seed, in the bank's order."""
    chosen = Random(f"{seed}:report").sample(range(len(queries)), min(n, len(queries)))
    return [queries[position] for position in sorted(chosen)]


def count_words(texts: Iterable[str]) -> list[int]:
    """Words of each text that is not empty."""
    return [len(text.split()) for text in texts if text]


def _make_histogram(numbers: Sequence[int], most: int | None = None) -> list[Bar]:
    """How often each number stands there, gaps included; from `most` on they are one bar."""
    counts = Counter(n if most is None else min(n, most) for n in numbers)
    first = 0 if most else min(counts, default=0)
    return [
        Bar(f"{n}+" if n == most else str(n), counts[n], counts[n] / len(numbers))
        for n in range(first, max(counts, default=-1) + 1)
    ]


def _name_ending(outcome: str, reason: str) -> str:
    if outcome == "declined":
        return "declined by the writer"
    return outcome if outcome == reason else f"{outcome}: {reason}"
