"""Verdicts added up: shares of wins, ties and losses with their intervals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["win", "tie", "lose"]

METHOD = "Wilson score interval for each share (Wilson 1927), 95 %; pairs count as independent"
_Z95 = 1.959963984540054


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


def summarise(judgements: Iterable[Judgement]) -> dict[str, Any]:
    """Counts, shares (0 to 1) with 95 % intervals, and consistency, of one criterion.

    `consistency` is the share of judged pairs on which both orders agree; None without any.
    `failed` counts orders without a verdict, by reason; their pairs are not in `n`.
    """
    rows = list(judgements)
    judged = [row for row in rows if row.verdict is not None]
    counts = Counter(row.verdict for row in judged)
    failed = Counter(reason for row in rows for reason in row.reasons)
    n = len(judged)
    summary: dict[str, Any] = {"n": n}
    verdicts: tuple[Verdict, ...] = ("win", "tie", "lose")
    for verdict in verdicts:
        low, high = wilson_interval(counts[verdict], n)
        summary[verdict] = {
            "count": counts[verdict],
            "share": counts[verdict] / n if n else None,
            "low": low,
            "high": high,
        }
    agreed = sum(row.forward == row.backward for row in judged)
    summary["consistency"] = agreed / n if n else None
    summary["failed"] = dict(sorted(failed.items()))
    return summary


def wilson_interval(count: int, n: int) -> tuple[float | None, float | None]:
    """The 95 % Wilson score interval of `count` among `n`; (None, None) where n is 0.

    E. B. Wilson, "Probable inference, the law of succession, and statistical inference",
    JASA 22 (1927).
    """
    if n == 0:
        return None, None
    share, z2 = count / n, _Z95**2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z95 / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)
