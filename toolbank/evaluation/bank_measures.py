"""Measure two banks: coverage, variety, wording, the price of requests, and labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, islice, pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from toolbank.bank.bank import Bank, Label
from toolbank.bank.records import AttemptRecord, Query
from toolbank.evaluation.paired_figures import (
    FigureKind,
    OfRows,
    PairedFigure,
    Rows,
    compare_figure,
    ratio_of,
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

    @property
    def queries(self) -> list[Query]:
        """The requests of the units."""
        return [query for _, query in self.units if query]

    @property
    def has_attempts(self) -> bool:
        """Whether it is a run, whose attempts are known."""
        return any(attempt for attempt, _ in self.units)

    @cached_property
    def graded(self) -> frozenset[str]:
        """The ids of the requests that a model or a person has graded."""
        of: dict[str, list[Label]] = {}
        for label in self.bank.labels:
            of.setdefault(label.query, []).append(label)
        return frozenset(one for one, labels in of.items() if not is_of_checks(labels))


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
    for which both have one, or of a sample of the larger bank. Those of coverage have no p if the
    banks do not have the same tools.
    """
    kinds = [*_WORDING]
    values = [_value_units(one) for one in (a, b)]
    if a.graded and b.graded:
        kinds += _LABELS
    if a.has_attempts and b.has_attempts:
        endings = Counter(
            name
            for row in chain(*values)
            for name in row
            if name.startswith("attempts")
        )
        kinds += _PRICE
        kinds += [
            FigureKind(
                "Price", name, "share", "higher" if name == _ACCEPTED else "lower"
            )
            for name, _ in endings.most_common(_MOST_ENDINGS)
        ]
    ratios = (_compare_ratio(kind, *values, paired=paired) for kind in kinds)
    return [
        *_compare_variety(a, b, seed, paired=paired, embed=embed),
        *(one for one in ratios if one.difference is not None),
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
    is_alike = {*a.bank.tool_names} == {*b.bank.tool_names}
    makers: dict[FigureKind, Callable[[_Sample], OfRows]] = {
        _DISTINCT: lambda one: partial(one.distinct_pairs, most),
        _OPENINGS: lambda one: one.commonest_openings,
        _NEAR_DUPLICATES: lambda one: one.near_duplicates,
    }
    if a.bank.tools and b.bank.tools:
        makers |= {
            _USED: lambda one: one.share_used,
            _GINI: lambda one: one.gini,
            _SETS: lambda one: one.distinct_sets,
        }
    for kind, make in makers.items():
        of_a, of_b = map(make, samples)
        figure = compare_figure(kind, of_a, of_b, (n, n), paired=paired)
        if kind.section == "Coverage" and not is_alike:
            # A share of 8 tools says nothing about one of 188.
            figure = replace(figure, low=None, high=None, p=None)
        yield figure
    if embed is None or n < 2:
        return
    n = min(n, _MOST_EMBEDDED)
    vectors = [embed([query.query for query in queries[:n]]) for queries in chosen]
    cosines = [one @ one.T for one in vectors]
    for matrix in cosines:
        np.fill_diagonal(matrix, 0)
    for kind, of in ((_COSINE, _mean_cosine), (_NEAREST, _nearest_cosine)):
        of_a, of_b = (partial(of, one) for one in cosines)
        yield compare_figure(kind, of_a, of_b, (n, n), paired=paired)


_USED = FigureKind("Coverage", "tools used at least once", "share", "higher")
_GINI = FigureKind("Coverage", "Gini coefficient of uses", "number", "lower")
_SETS = FigureKind("Coverage", "distinct sets of tools", "share", "higher")
_DISTINCT = FigureKind("Variety", "distinct-2", "number", "higher")
_OPENINGS = FigureKind(
    "Variety", "requests with one of the 10 commonest openings", "share", "lower"
)
_NEAR_DUPLICATES = FigureKind(
    "Variety", "near-duplicates of another request", "share", "lower"
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
        seen = NearDuplicates(THRESHOLD, [one.query for one in queries].__getitem__)
        for one in queries:
            seen.add(one.query)
        self._copies = [
            {number for number, _ in seen.find_all(one.query)} for one in queries
        ]
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
        pairs = [*islice(chain.from_iterable(self._pairs[row] for row in rows), most)]
        return len(set(pairs)) / (len(pairs) or 1)

    def near_duplicates(self, rows: Rows) -> float:
        kept = {*rows.tolist()}
        return sum(len(self._copies[row] & kept) > 1 for row in kept) / len(kept)

    def commonest_openings(self, rows: Rows) -> float:
        counts = Counter(self._openings[row] for row in rows)
        return sum(n for _, n in counts.most_common(_COMMONEST)) / len(rows)


_ACCEPTED = "attempts accepted"
_WORDING = (
    FigureKind("Wording", "requests in the tools' words", "share", "lower"),
    FigureKind("Wording", "requests that paraphrase the tools' words", "share", ""),
    FigureKind("Wording", "requests that name the outcome alone", "share", ""),
    FigureKind("Wording", "overlap with the words of the tools", "number", "lower"),
    FigureKind("Wording", "requests with an identifier", "share", "lower"),
    FigureKind("Wording", "requests with several commands", "share", "lower"),
    FigureKind("Wording", "words per request", "number", ""),
    FigureKind("Wording", "reading grade", "number", ""),
)
_PRICE = (
    FigureKind("Price", "calls per accepted request", "number", "lower"),
    FigureKind("Price", "tokens per accepted request", "number", "lower"),
    FigureKind("Price", "dollars per accepted request", "number", "lower"),
)
_LABELS = (
    FigureKind("Labels", "requests with graded labels", "share", ""),
    FigureKind("Labels", "requests whose first labels are right", "share", "higher"),
    FigureKind("Labels", "first labels that are wrong", "share", "lower"),
    FigureKind("Labels", "needed tools that the first labels lack", "share", "lower"),
    FigureKind("Labels", "requests set aside", "share", "lower"),
)

_Values = dict[str, tuple[float, float]]
"""Numerators and denominators by the names of figures."""


def _compare_ratio(
    kind: FigureKind, a: Sequence[_Values], b: Sequence[_Values], *, paired: bool
) -> PairedFigure:
    # An attempt that did not end so counts in the denominator.
    missing = (0.0, 1.0 if kind.name.startswith("attempts") else 0.0)
    sums = [
        np.array([row.get(kind.name, missing) for row in units], np.float64)
        for units in (a, b)
    ]
    n = min(int((one[:, 1] > 0).sum()) for one in sums)
    of_a, of_b = map(ratio_of, sums)
    return compare_figure(kind, of_a, of_b, (len(a), len(b)), paired=paired, n=n)


def _value_units(one: ComparedBank) -> list[_Values]:
    """The figures of each unit: those of its attempt, and those of its request."""
    texts = [query.query for query in one.queries]
    checker = TextChecker(one.bank.tools)
    measured = zip(grade(texts), measure_wording(one.bank, one.queries), strict=True)
    found = []
    for attempt, query in one.units:
        row = _value_attempt(attempt) if attempt else {}
        if query:
            row |= _value_labels(one, query)
            reading, wording = next(measured)
            text, names = query.query, query.tools
            values = {
                "requests with several commands": read_features(text).chained_commands
                > 0,
                "words per request": len(text.split()),
                "reading grade": reading,
            }
            if any(name in one.bank.index for name in names):
                of = class_wording(*wording)
                values |= {
                    "requests in the tools' words": of == "tool-words",
                    "requests that paraphrase the tools' words": of == "paraphrase",
                    "requests that name the outcome alone": of == "outcome",
                    "overlap with the words of the tools": wording[0],
                    "requests with an identifier": bool(checker.find_identifier(text)),
                }
            row |= {
                key: (float(value), 1.0)
                for key, value in values.items()
                if value is not None
            }
        found.append(row)
    return found


def _value_attempt(one: AttemptCost) -> _Values:
    record = one.record
    is_accepted = float(record.outcome == "accepted")
    prices = {
        "calls": len(record.requests),
        "tokens": one.tokens,
        "dollars": one.dollars,
    }
    return {
        f"attempts {': '.join(filter(None, (record.outcome, record.reason)))}": (
            1.0,
            1.0,
        ),
        **{
            f"{what} per accepted request": (float(price), is_accepted)
            for what, price in prices.items()
            if price is not None
        },
    }


def _value_labels(one: ComparedBank, query: Query) -> _Values:
    is_graded = query.id in one.graded
    if not is_graded:
        return {"requests with graded labels": (0.0, 1.0)}
    n = Counter(
        compare_labels(own_labels(one.bank, query), one.bank.verified[query.id])
    )
    return {
        "requests with graded labels": (1.0, 1.0),
        "requests whose first labels are right": (n["same"], 1.0),
        "first labels that are wrong": (n["refuted"], n["labels"]),
        "needed tools that the first labels lack": (
            n["added"],
            n["added"] + n["confirmed"],
        ),
        "requests set aside": (n["aside"], 1.0),
    }
