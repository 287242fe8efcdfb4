"""What the writing of asks says of how it went."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from toolbank.asks.writers import find_ask_writer
from toolbank.llm.progress import describe_spent, note_unpriced
from toolbank.system.numbers import count

if TYPE_CHECKING:
    from toolbank.asks.ask_builder import Folded
    from toolbank.asks.asker import Asker

_SHOWN = 160


def summarise(asker: Asker, folded: Folded) -> str:
    """Such as "2,143 asks for 536 tools; 536 replies asked for"."""
    alike = folded.tools > folded.ended
    shared = f" ({folded.ended:,} asked for; siblings share theirs)" if alike else ""
    return (
        f"{count(folded.accepted, 'ask')} for {count(folded.tools, 'tool')}{shared}; "
        f"{describe_spent(asker.pool)}"
    )


def describe_wait(pending: int) -> str:
    """Such as "12 requests wait for their replies"."""
    wait = count(pending, "request waits", "requests wait")
    return f"{wait} for {'its reply' if pending == 1 else 'their replies'}"


def list_problems(asker: Asker, folded: Folded, n_tools: int) -> Iterator[str]:
    """What the user should know of asks that were made."""
    if asker.pool.stop.cause == "budget":
        yield f"stopped early: {asker.pool.stop.message}"
    if said := ", ".join(folded.describe_reasons("rejected")):
        yield f"not accepted: {said}"
    declined = {kind: n["declined"] for kind, n in folded.by_kind.items()}
    if said := ", ".join(f"{kind} {n:,}" for kind, n in declined.items() if n):
        yield f"not written by {asker.engine.name}: {said}"
    if said := ", ".join(folded.describe_reasons("failed")):
        yield f"failed: {said}"
        yield f"the last failure: {asker.last_failure}"
    if without := n_tools - folded.tools:
        yield f"without an ask: {count(without, 'tool')} of {n_tools:,}"
    yield from note_unpriced(asker.pool, asker.config.section)
    if missing := asker.describe()["missing_tools"]:
        yield (
            f"not in the bank: {count(len(missing), 'tool that has', 'tools that have')} recorded "
            f"asks, such as {next(iter(missing))}; all are in asks.json"
        )
    unused: dict[str, int] = getattr(asker.engine, "unused", {})
    if unused:
        asks = count(sum(unused.values()), "recorded ask")
        yield (
            f"not used: {asks} of {count(len(unused), 'tool')}, such as {next(iter(unused))}; of a "
            "tool those of its first line count, as many and of those kinds that asks.per_tool "
            "and asks.kinds say"
        )


def explain_interrupt(asker: Asker, ended: int) -> str:
    """What is kept after Ctrl-C."""
    return (
        f"stopped in asks, with {ended:,} of {len(asker.groups):,} tools asked for. Every reply "
        f"that came is kept ({describe_spent(asker.pool)}); the same command goes on from there."
    )


def explain_nothing(asker: Asker, folded: Folded) -> str:
    """Why there is not one ask."""
    stop = asker.pool.stop
    if stop.cause == "budget":
        return (
            f"no ask was accepted before the run stopped: {stop.message}. The replies that came "
            "are kept."
        )
    lines = [
        f"None of {count(folded.ended, 'reply', 'replies')} gave an ask that can be used "
        f"({asker.pool.counts.summary()}):",
        *(f"  {line}" for line in _list_reasons(folded)),
        f"Look at what {asker.engine.name} is asked and answers: toolbank show RUN with the name "
        "of a tool, toolbank preview RECIPE for what would be asked.",
    ]
    if find_ask_writer(asker.config).asks_model:
        lines.append(
            "Replies that are in the journal are not asked for again: if the endpoint is mended "
            "since, give another --out."
        )
    return "\n".join(lines)


def _list_reasons(folded: Folded) -> Iterator[str]:
    """A line for each reason, with an example where it has particulars."""
    outcomes = ("rejected", "declined", "failed")
    for said in chain.from_iterable(map(folded.describe_reasons, outcomes)):
        reason = said.rpartition(" ")[0]
        details = (
            " ".join(row["detail"].split())
            for row in folded.not_accepted
            if (row["reason"] or row["outcome"]) == reason and row["detail"]
        )
        example = next(details, "")
        yield said + (f", such as: {example[:_SHOWN]}" if example else "")
