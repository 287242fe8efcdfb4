"""Verdicts added up: shares of wins, ties and losses with their intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from toolbank.bank.ranking import wilson_interval

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
