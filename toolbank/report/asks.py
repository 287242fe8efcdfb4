"""What became of the asks, as the report's tables show it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from random import Random

from toolbank.bank.records import Ask
from toolbank.report.content import Asks
from toolbank.report.numbers import Bar

_EXAMPLES = 3


def follow_asks(asks: Asks) -> list[Bar]:
    """Accepted first, then every reason for which there is none, the largest first."""
    counts = asks.counts
    rows = [("declined", "declined", counts.declined)] if counts.declined else []
    rows += [("rejected", *row) for row in counts.rejected.items()]
    rows += [("failed", *row) for row in counts.failed.items()]
    total = counts.accepted + sum(count for *_, count in rows) or 1
    bars = [Bar("accepted", counts.accepted, counts.accepted / total)]
    for outcome, reason, count in sorted(rows, key=lambda row: (-row[2], row[1])):
        said = f"{outcome}: {reason}"
        label = "not written by the writer" if outcome == "declined" else said
        examples = dict.fromkeys(
            one.detail
            for one in asks.not_accepted
            if (one.outcome, one.reason) == (outcome, reason) and one.detail
        )
        bars.append(Bar(label, count, count / total, tuple(examples)[:_EXAMPLES]))
    return bars


def sample_asks(
    asks: Sequence[Ask], n: int, seed: int
) -> list[tuple[str, list[tuple[str, str]]]]:
    """Up to n tools at random by the seed, by name, each with the kinds and texts of its asks."""
    by_tool: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for ask in asks:
        by_tool[ask.tool].append((ask.kind, ask.ask))
    names = sorted(by_tool)
    chosen = Random(f"{seed}:report:asks").sample(names, min(n, len(names)))
    return [(name, by_tool[name]) for name in sorted(chosen)]
