"""Summarise verdicts: shares of wins, ties and losses, and the effect of text length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal

from pydantic import Field

from toolbank.bank.bank import Bank
from toolbank.bank.files import read_queries
from toolbank.bank.ranking import wilson_interval
from toolbank.bank.records import Query
from toolbank.datasets import DATASETS, find_format
from toolbank.requests.judge.judges import JudgeConfig
from toolbank.system.errors import InputError
from toolbank.system.files import get_id, get_text, get_texts, read_lines
from toolbank.system.folders import is_run_folder

Verdict = Literal["win", "tie", "lose"]

_Count = Annotated[int, Field(ge=0)]
_Share = Annotated[float, Field(ge=0, le=1)]

METHOD = (
    "Wilson score interval for each share (Wilson 1927), 95 %; p of the exact sign test of wins "
    "against losses, ties left out; pairs count as independent"
)


@dataclass(frozen=True)
class Judgement:
    """The verdicts on one pair by one criterion; "win" is a win of the query.

    `forward` is the verdict with the query first, `backward` with the query second; None without a
    verdict, and then `reasons` says why.
    """

    criterion: str
    forward: Verdict | None
    backward: Verdict | None
    reasons: tuple[str, ...] = field(default=())

    @property
    def verdict(self) -> Verdict | None:
        """The verdict of both orders; a tie if they differ, None if one is missing."""
        if self.forward is None or self.backward is None:
            return None
        return self.forward if self.forward == self.backward else "tie"


@dataclass(frozen=True)
class VerdictShare:
    """How often a verdict was given, and its share of the judged pairs with a 95 % interval.

    Without judged pairs there is no share.
    """

    count: _Count
    share: _Share | None
    low: _Share | None
    high: _Share | None


@dataclass(frozen=True)
class CriterionSummary:
    """The verdicts by one criterion on `n` judged pairs.

    `consistency` is the share of pairs on which both orders agree. `failed` counts orders without a
    verdict, by reason; their pairs are not in `n`. `p` is of the exact two-sided sign test of wins
    against losses; None without either.
    """

    n: _Count
    win: VerdictShare
    tie: VerdictShare
    lose: VerdictShare
    consistency: _Share | None
    failed: dict[str, _Count]
    p: _Share | None = None

    def __post_init__(self) -> None:
        shares = (self.win, self.tie, self.lose)
        ends = [one for part in shares for one in (part.share, part.low, part.high)]
        if {one is not None for one in (*ends, self.consistency)} != {self.n > 0}:
            raise ValueError("shares are numbers where n is not 0")


def summarise(judgements: Iterable[Judgement]) -> CriterionSummary:
    """Summarise the judgements by one criterion."""
    rows = list(judgements)
    judged = [row for row in rows if row.verdict is not None]
    counts = Counter(row.verdict for row in judged)
    failed = Counter(reason for row in rows for reason in row.reasons)
    n = len(judged)

    def share(verdict: Verdict) -> VerdictShare:
        count = counts[verdict]
        if not n:
            return VerdictShare(count, None, None, None)
        return VerdictShare(count, count / n, *wilson_interval(count, n))

    decided = counts["win"] + counts["lose"]
    agreed = sum(row.forward == row.backward for row in judged)
    return CriterionSummary(
        n=n,
        win=share("win"),
        tie=share("tie"),
        lose=share("lose"),
        consistency=agreed / n if n else None,
        failed=dict(sorted(failed.items())),
        p=_sign_test(counts["win"], decided) if decided else None,
    )


def _sign_test(wins: int, n: int) -> float:
    from scipy.stats import binomtest

    return float(binomtest(wins, n).pvalue)


_BANK = Path("bank", "queries.parquet")


@dataclass(frozen=True)
class Side:
    """One text of a pair, with its id and its tools if they are known."""

    id: str
    text: str
    tools: tuple[str, ...] = ()


def read_sides(place: Path) -> list[Side]:
    """Read the requests of a run, of a dataset of any format, or of a JSONL file.

    A line of a file has "query", and optionally "id" and "tools".

    Raises:
        InputError: a file can't be read, holds no request, or has broken lines.
    """
    if is_run_folder(place):
        if not (place / _BANK).is_file():
            raise InputError(
                f"{place}: this run has no requests yet. Run it first, or name another folder."
            )
        sides = make_sides(read_queries(place / _BANK))
    elif place.is_dir():
        config = find_format(place)
        dataset = DATASETS.find(config.type, "judge.against").read(config)
        sides = make_sides(dataset.queries)
    else:
        sides = read_lines(place, _parse)
    if not sides:
        raise InputError(f'{place}: no requests. Each line needs a "query".')
    return sides


def find_files(place: Path) -> tuple[Path, ...]:
    """List the files that `read_sides` reads.

    Raises:
        InputError: the folder has the files of no format.
    """
    if is_run_folder(place):
        return (place / _BANK,)
    if place.is_dir():
        config = find_format(place)
        return DATASETS.find(config.type, "judge.against").find_files(config)
    return (place,)


def make_sides(queries: Iterable[Query]) -> list[Side]:
    """Make sides of queries."""
    return [Side(query.id, query.query, query.tools) for query in queries]


def _parse(row: dict[str, Any], number: int) -> Side:
    tools = () if row.get("tools") is None else get_texts(row, "tools")
    return Side(get_id(row, number), get_text(row, "query"), tools)


@dataclass(frozen=True)
class Pair:
    """A query of the bank and the text that it is compared with."""

    query: Side
    other: Side

    @property
    def is_identical(self) -> bool:
        """Whether both texts are the same."""
        return self.query.text == self.other.text


def draw_pairs(
    bank: Bank, config: JudgeConfig, seed: int, matches: Mapping[str, str] | None = None
) -> list[Pair]:
    """Draw up to `config.pairs` pairs of different texts by the seed, each query in one at most.

    Pairs of identical texts that are drawn before the last of them are returned, too.

    A larger sample of the same seed begins with the smaller one. Against "draft", a query is paired
    with its own draft, and queries without one are skipped. Against another dataset, queries and
    its requests are paired at random, unless `matches` has the id of the other request for that of
    a query: then these are the pairs.

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
        if matches:
            by_id = {other.id: other for other in others}
            found = ((one, by_id.get(matches.get(one.id, ""))) for one in queries)
            pairs = [Pair(one, other) for one, other in found if other]
        else:
            random.shuffle(others)
            pairs = list(map(Pair, queries, others))
    drawn, left = [], config.pairs
    for pair in pairs:
        if not left:
            break
        drawn.append(pair)
        left -= not pair.is_identical
    return drawn


# The highest ratio of the words of the query to those of the other text, by part.
_PARTS = {"shorter": 0.8, "as long": 1.25, "longer": float("inf")}


@dataclass(frozen=True)
class LengthPart:
    """The pairs whose query is shorter than the other text, about as long, or longer, in words.

    `n` counts them, and `ratio` is the mean ratio of the lengths, None without any.
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
    """Summarise the verdicts by relative length: shorter by a fifth, longer by a quarter, between."""
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
