"""Measure two banks: coverage, variety, wording, the price of requests, and labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from toolbank.bank.bank import Bank, Label
from toolbank.bank.records import AttemptRecord, Query
from toolbank.evaluation.paired_figures import (
    Better,
    FigureKind,
    Measure,
    PairedFigure,
    Rows,
    Sums,
    Unit,
    compare_ratios,
    compare_sets,
)
from toolbank.requests.judge.judges import read_features
from toolbank.requests.profile.classes import class_wording, measure_wording
from toolbank.requests.quality.measure import THRESHOLD, measure_gini
from toolbank.requests.quality.texts import draw, grade, words_of
from toolbank.requests.verify.agreement import compare_labels
from toolbank.requests.verify.directions import own_labels
from toolbank.requests.verify.gradings import is_of_checks
from toolbank.requests.write.checks import TextChecker
from toolbank.requests.write.near_duplicates import NearDuplicates

Vectors = NDArray[np.float32]

_OPENING_WORDS, _COMMONEST = 3, 10
_MOST_WORDS = 10_000
_MOST_EMBEDDED = 1_000
_MOST_ENDINGS = 8


@dataclass(frozen=True)
class AttemptCost:
    """An attempt and the price of its calls; tokens and dollars are None if they are unknown."""

    record: AttemptRecord
    tokens: int | None = None
    dollars: float | None = None


@dataclass(frozen=True)
class ComparedBank:
    """A bank, and the units that are drawn: its attempts with their requests.

    Without attempts, each request is a unit. In a paired comparison, unit i of both banks has the
    same candidate set.
    """

    bank: Bank
    units: Sequence[tuple[AttemptCost | None, Query | None]]

    @cached_property
    def queries(self) -> list[Query]:
        """The requests of the units."""
        return [query for _, query in self.units if query]

    @cached_property
    def attempts(self) -> list[AttemptCost]:
        """The attempts of the units."""
        return [attempt for attempt, _ in self.units if attempt]

    @cached_property
    def labels(self) -> dict[str, Counter[str]]:
        """How the first labels of each graded request agree with the grades."""
        of: dict[str, list[Label]] = {}
        for label in self.bank.labels:
            of.setdefault(label.query, []).append(label)
        return {
            query.id: Counter(
                compare_labels(
                    own_labels(self.bank, query), self.bank.verified[query.id]
                )
            )
            for query in self.queries
            if query.id in of and not is_of_checks(of[query.id])
        }

    def sum_requests(self, values: Mapping[str, tuple[float, float]]) -> Sums:
        """Values and weights of each unit, by the id of its request; 0 without one."""
        nothing = (0.0, 0.0)
        found = [
            values.get(query.id, nothing) if query else nothing
            for _, query in self.units
        ]
        return np.array(found, np.float64).reshape(-1, 2)

    def sum_attempts(self, value: Callable[[AttemptCost], tuple[float, float]]) -> Sums:
        """Values and weights of each unit, by its attempt; 0 without one."""
        found = [value(attempt) if attempt else (0.0, 0.0) for attempt, _ in self.units]
        return np.array(found, np.float64).reshape(-1, 2)


def compare_banks(
    a: ComparedBank,
    b: ComparedBank,
    seed: int,
    *,
    paired: bool,
    embed: Callable[[Sequence[str]], Vectors] | None = None,
) -> list[PairedFigure]:
    """Compare all figures that both banks have; without `embed`, cosines are missing.

    Figures that depend on the number of requests are those of equally many: of the candidate sets
    for which both have one, or of a sample of the larger bank.
    """
    ratios = [
        *_measure_wording(a, b),
        *(_measure_price(a, b) if a.attempts and b.attempts else ()),
        *(_measure_labels(a, b) if a.labels and b.labels else ()),
    ]
    return [
        *_compare_variety(a, b, seed, paired=paired, embed=embed),
        *compare_ratios(ratios, seed, paired=paired),
    ]


def choose_alike(
    a: ComparedBank, b: ComparedBank, seed: int, *, paired: bool
) -> tuple[list[Query], list[Query]]:
    """Choose equally many requests: of the same candidate sets, or at random from the larger bank."""
    if paired:
        units = zip(a.units, b.units, strict=True)
        both = [(one, other) for (_, one), (_, other) in units if one and other]
        return [one for one, _ in both], [other for _, other in both]
    n = min(len(a.queries), len(b.queries))
    drawn = []
    for queries in (a.queries, b.queries):
        places = draw([query.query for query in queries], n, seed)
        drawn.append([queries[place] for place in sorted(places)])
    return drawn[0], drawn[1]


def _compare_variety(
    a: ComparedBank,
    b: ComparedBank,
    seed: int,
    *,
    paired: bool,
    embed: Callable[[Sequence[str]], Vectors] | None,
) -> Iterator[PairedFigure]:
    chosen = choose_alike(a, b, seed, paired=paired)
    n = len(chosen[0])
    samples = [
        _Sample(one.bank, queries) for one, queries in zip((a, b), chosen, strict=True)
    ]
    # A group that is left out takes its words with it.
    most = min(_MOST_WORDS, *(int(0.95 * one.n_words) for one in samples))
    makers: dict[FigureKind, Callable[[_Sample], _OfRows]] = {
        _DISTINCT: lambda one: partial(one.distinct_pairs, most),
        _OPENINGS: lambda one: one.commonest_openings,
    }
    if a.bank.tools and b.bank.tools:
        makers |= {
            _USED: lambda one: one.share_used,
            _GINI: lambda one: one.gini,
            _SETS: lambda one: one.distinct_sets,
        }
    measures = [Measure(kind, *map(make, samples)) for kind, make in makers.items()]
    yield from compare_sets(measures, n, paired=paired)
    if embed is None or n < 2:
        return
    n = min(n, _MOST_EMBEDDED)
    vectors = [embed([query.query for query in queries[:n]]) for queries in chosen]
    cosines = [one @ one.T for one in vectors]
    for matrix in cosines:
        np.fill_diagonal(matrix, 0)
    measures = [
        Measure(kind, *(partial(of, one) for one in cosines))
        for kind, of in ((_COSINE, _mean_cosine), (_NEAREST, _nearest_cosine))
    ]
    yield from compare_sets(measures, n, paired=paired)


_OfRows = Callable[[Rows], float]

_USED = FigureKind("Coverage", "tools used at least once", "share", "higher")
_GINI = FigureKind("Coverage", "Gini coefficient of uses", "number", "lower")
_SETS = FigureKind("Coverage", "distinct sets of tools", "share", "higher")
_DISTINCT = FigureKind("Variety", "distinct-2", "number", "higher")
_OPENINGS = FigureKind(
    "Variety", "requests with one of the 10 commonest openings", "share", "lower"
)
_COSINE = FigureKind("Variety", "cosine of two requests", "number", "lower")
_NEAREST = FigureKind("Variety", "cosine with the nearest request", "number", "lower")


def _mean_cosine(cosines: Vectors, rows: Rows) -> float:
    n = len(rows)
    return float(cosines[np.ix_(rows, rows)].sum(dtype=np.float64)) / (n * (n - 1))


def _nearest_cosine(cosines: Vectors, rows: Rows) -> float:
    return float(cosines[np.ix_(rows, rows)].max(axis=1).mean(dtype=np.float64))


class _Sample:
    """Figures of some of the requests of a bank."""

    def __init__(self, bank: Bank, queries: Sequence[Query]) -> None:
        texts = pl.DataFrame(
            {"text": [one.query for one in queries]}, {"text": pl.String}
        )
        words = texts.select(words_of(pl.col("text"))).to_series().to_list()
        self.n_words = sum(map(len, words))
        self._bank = bank
        self._tools = [
            frozenset(bank.index.get(name, name) for name in one.tools)
            for one in queries
        ]
        self._pairs = [[*pairwise(one)] for one in words]
        self._openings = [tuple(one[:_OPENING_WORDS]) for one in words]

    def _count(self, rows: Rows) -> Counter[int | str]:
        return Counter(chain.from_iterable(self._tools[row] for row in rows))

    def share_used(self, rows: Rows) -> float:
        known = sum(isinstance(one, int) for one in self._count(rows))
        return known / len(self._bank.tools)

    def gini(self, rows: Rows) -> float:
        uses = self._count(rows)
        counts = pl.Series([uses[place] for place in range(len(self._bank.tools))])
        return measure_gini(counts) if counts.sum() else 0.0

    def distinct_sets(self, rows: Rows) -> float:
        return len({self._tools[row] for row in rows}) / len(rows)

    def distinct_pairs(self, most: int, rows: Rows) -> float:
        """Distinct-2 of the first words of the requests, as many for both banks."""
        pairs = [*chain.from_iterable(self._pairs[row] for row in rows)][:most]
        return len(set(pairs)) / (len(pairs) or 1)

    def commonest_openings(self, rows: Rows) -> float:
        counts = Counter(self._openings[row] for row in rows)
        return sum(n for _, n in counts.most_common(_COMMONEST)) / len(rows)


def _measure_wording(a: ComparedBank, b: ComparedBank) -> Iterator[Measure[Sums]]:
    values = [_value_requests(one) for one in (a, b)]
    for kind in _WORDING:
        own = [
            {
                query: (row[kind.name], 1.0)
                for query, row in of.items()
                if kind.name in row
            }
            for of in values
        ]
        if all(own):
            yield Measure(kind, a.sum_requests(own[0]), b.sum_requests(own[1]))


_WORDING = (
    FigureKind("Variety", "near-duplicates of another request", "share", "lower"),
    FigureKind("Wording", "requests in the tools' words", "share", "lower"),
    FigureKind("Wording", "requests that paraphrase the tools' words", "share", ""),
    FigureKind("Wording", "requests that name the outcome alone", "share", ""),
    FigureKind("Wording", "overlap with the words of the tools", "number", "lower"),
    FigureKind("Wording", "requests with an identifier", "share", "lower"),
    FigureKind("Wording", "requests with several commands", "share", "lower"),
    FigureKind("Wording", "words per request", "number", ""),
    FigureKind("Wording", "reading grade", "number", ""),
)


def _value_requests(one: ComparedBank) -> dict[str, dict[str, float]]:
    """The figures of each request, by its id."""
    bank, texts = one.bank, [query.query for query in one.queries]
    seen = NearDuplicates(THRESHOLD, texts.__getitem__)
    for text in texts:
        seen.add(text)
    checker = TextChecker(bank.tools)
    found: dict[str, dict[str, float]] = {}
    for query, reading, (overlap, named) in zip(
        one.queries, grade(texts), measure_wording(bank, one.queries), strict=True
    ):
        text = query.query
        row: dict[str, float] = {
            "near-duplicates of another request": len([*seen.find_all(text)]) > 1,
            "requests with several commands": read_features(text).chained_commands > 0,
            "words per request": len(text.split()),
        }
        if reading is not None:
            row["reading grade"] = reading
        if any(name in bank.index for name in query.tools):
            of = class_wording(overlap, named)
            row["requests in the tools' words"] = of == "tool-words"
            row["requests that paraphrase the tools' words"] = of == "paraphrase"
            row["requests that name the outcome alone"] = of == "outcome"
            row["overlap with the words of the tools"] = overlap
            is_named = checker.find_identifier(text) is not None
            row["requests with an identifier"] = is_named
        found[query.id] = row
    return found


_Price = Callable[[AttemptCost], float | None]


def _measure_price(a: ComparedBank, b: ComparedBank) -> Iterator[Measure[Sums]]:
    attempts = [*a.attempts, *b.attempts]
    endings = Counter((one.record.outcome, one.record.reason) for one in attempts)
    endings["accepted", ""] = len(attempts)
    for ending, _ in endings.most_common(_MOST_ENDINGS):
        name = f"attempts {': '.join(filter(None, ending))}"
        better: Better = "higher" if ending[0] == "accepted" else "lower"
        yield _measure_attempts(a, b, name, better, partial(_ends_with, ending))
    prices: dict[str, _Price] = {
        "calls": lambda one: len(one.record.requests),
        "tokens": lambda one: one.tokens,
        "dollars": lambda one: one.dollars,
    }
    for what, price in prices.items():
        if all(price(one) is not None for one in attempts):
            name = f"{what} per accepted request"
            yield _measure_attempts(a, b, name, "lower", partial(_pay, price))


def _measure_attempts(
    a: ComparedBank,
    b: ComparedBank,
    name: str,
    better: Better,
    value: Callable[[AttemptCost], tuple[float, float]],
) -> Measure[Sums]:
    unit: Unit = "share" if name.startswith("attempts") else "number"
    kind = FigureKind("Price", name, unit, better)
    return Measure(kind, a.sum_attempts(value), b.sum_attempts(value))


def _ends_with(ending: tuple[str, str], one: AttemptCost) -> tuple[float, float]:
    return (one.record.outcome, one.record.reason) == ending, 1


def _pay(price: _Price, one: AttemptCost) -> tuple[float, float]:
    return price(one) or 0.0, one.record.outcome == "accepted"


# The counts of `compare_labels` that are divided by others.
_LABELS: Mapping[FigureKind, tuple[Sequence[str], Sequence[str]]] = {
    FigureKind(
        "Labels", "requests whose first labels are exactly right", "share", "higher"
    ): (["same"], ["requests"]),
    FigureKind("Labels", "first labels that are wrong", "share", "lower"): (
        ["refuted"],
        ["labels"],
    ),
    FigureKind("Labels", "needed tools that the first labels lack", "share", "lower"): (
        ["added"],
        ["added", "confirmed"],
    ),
    FigureKind("Labels", "requests set aside", "share", "lower"): (
        ["aside"],
        ["requests"],
    ),
}


def _measure_labels(a: ComparedBank, b: ComparedBank) -> Iterator[Measure[Sums]]:
    for kind, (above, below) in _LABELS.items():
        sums = [
            one.sum_requests(
                {
                    query: (sum(n[key] for key in above), sum(n[key] for key in below))
                    for query, n in one.labels.items()
                }
            )
            for one in (a, b)
        ]
        yield Measure(kind, *sums)
