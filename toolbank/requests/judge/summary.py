"""Add verdicts up: shares of wins, ties and losses, and the effect of text length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
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
    """One pair by one criterion. Verdicts are the query's: "win" is a win over the other text.

    `forward` was given with the query first, `backward` with it second; None where no verdict
    could be had, and then `reasons` says why.
    """

    criterion: str
    forward: Verdict | None
    backward: Verdict | None
    reasons: tuple[str, ...] = field(default=())

    @property
    def verdict(self) -> Verdict | None:
        """What both orders say; a tie where they differ; None where one is missing."""
        if self.forward is None or self.backward is None:
            return None
        return self.forward if self.forward == self.backward else "tie"


@dataclass(frozen=True)
class VerdictShare:
    """How often a verdict was given, and its share of the judged pairs with a 95 % interval.

    Of no pairs there is no share.
    """

    count: _Count
    share: _Share | None
    low: _Share | None
    high: _Share | None


@dataclass(frozen=True)
class CriterionSummary:
    """The verdicts by one criterion on `n` judged pairs.

    `consistency` is the share of them on which both orders agree; None without any. `failed`
    counts orders without a verdict, by reason; their pairs are not in `n`. `p` is that of the exact
    two-sided sign test: how likely wins and losses are to lie so far apart, or further, where
    neither is the more frequent; None where there are neither.
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
    """Counts, shares (0 to 1) with 95 % intervals, and consistency, of one criterion."""
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
    """One text of a pair, with its id and the tools it needs where they are known."""

    id: str
    text: str
    tools: tuple[str, ...] = ()


def read_sides(place: Path) -> list[Side]:
    """Read the requests of a run, of a dataset of any format, or of a JSONL file.

    A line of a file has "query", and "id" and "tools" if you like.

    Raises:
        InputError: a file can't be read, holds no request, or has broken lines.
    """
    if is_run_folder(place):
        if not (place / _BANK).is_file():
            raise InputError(
                f"{place}: a run that has no requests yet. Run it first, or give another place."
            )
        sides = make_sides(read_queries(place / _BANK))
    elif place.is_dir():
        config = find_format(place)
        dataset = DATASETS.find(config.type, "judge.against").read(config)
        sides = make_sides(dataset.queries)
    else:
        sides = read_lines(place, _parse)
    if not sides:
        raise InputError(f'{place}: no requests in it. Each line needs a "query".')
    return sides


def find_files(place: Path) -> tuple[Path, ...]:
    """The files that `read_sides` reads.

    Raises:
        InputError: there is a folder that holds the files of no format.
    """
    if is_run_folder(place):
        return (place / _BANK,)
    if place.is_dir():
        config = find_format(place)
        return DATASETS.find(config.type, "judge.against").find_files(config)
    return (place,)


def make_sides(queries: Iterable[Query]) -> list[Side]:
    """Queries as sides of pairs."""
    return [Side(query.id, query.query, query.tools) for query in queries]


def _parse(row: dict[str, Any], number: int) -> Side:
    tools = () if row.get("tools") is None else get_texts(row, "tools")
    return Side(get_id(row, number), get_text(row, "query"), tools)


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
