"""What generation says of how it went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from toolbank.generate.attempt import Outcome
from toolbank.generate.attempt_maker import AttemptMaker
from toolbank.generate.bank_builder import BankBuilder
from toolbank.generate.writers import find_writer
from toolbank.llm.progress import describe_spent, note_unpriced
from toolbank.system.numbers import count
from toolbank.system.terminal import command

_SHOWN = 160
_REJECTED: tuple[Outcome, ...] = ("declined", "rejected")
_FAILED: tuple[Outcome, ...] = ("failed",)


def summarise(maker: AttemptMaker, builder: BankBuilder) -> str:
    """Such as "20 queries of 25 attempts (30 were wanted); 45 replies asked for"."""
    message = f"{_accepted(builder)} of {count(builder.attempts, 'attempt')}"
    if builder.wanted is not None and builder.accepted < builder.wanted:
        message += (
            f" ({builder.wanted:,} {'was' if builder.wanted == 1 else 'were'} wanted)"
        )
    return f"{message}; {describe_spent(maker.pool)}"


def describe_wait(pending: int, builder: BankBuilder) -> str:
    """Such as "12 requests wait for their replies"."""
    wait = count(pending, "request waits", "requests wait")
    so_far = f"; {_accepted(builder)} so far" if builder.accepted else ""
    return f"{wait} for {'its reply' if pending == 1 else 'their replies'}{so_far}"


def list_problems(maker: AttemptMaker, builder: BankBuilder) -> Iterator[str]:
    """What the user should know of a bank that was made."""
    if maker.pool.stop.cause == "budget":
        yield f"stopped early: {maker.pool.stop.message}"
    if builder.quotas and builder.accepted:
        for number, wanted in builder.quotas.wanted.items():
            if (made := builder.accepted_of[number]) < wanted:
                of = count(number, "tool")
                yield f"{made:,} of {count(wanted, 'query', 'queries')} with {of}"
    if said := _reasons(builder, _REJECTED):
        yield f"not accepted: {said}"
    if builder.failed:
        yield f"failed: {_reasons(builder, _FAILED)}"
        yield f"the last failure: {maker.last_failure}"
    yield from note_unpriced(maker.pool, maker.config.section)
    missing = maker.describe()["missing_tools"]
    if missing:
        yield (
            f"{count(len(missing), 'offered tool is', 'offered tools are')} not in the bank "
            f"({count(sum(missing.values()), 'offer')}), such as {next(iter(missing))}; all are "
            "in bank.json"
        )


def explain_interrupt(maker: AttemptMaker, builder: BankBuilder) -> str:
    """What is kept after Ctrl-C, and how to go on."""
    message = (
        f"stopped in generate, with {_accepted(builder)} accepted. Every reply that came "
        f"is kept ({describe_spent(maker.pool)}); the same command goes on from there."
    )
    if builder.accepted:
        message += (
            " To make a bank of what there is, add to it:\n"
            f"  --set generate.queries={builder.accepted}"
        )
    return message


def explain_nothing(maker: AttemptMaker, builder: BankBuilder) -> str:
    """Why there is not one query."""
    stop = maker.pool.stop
    if stop.cause == "budget":
        return (
            f"no query was accepted before the run stopped: {stop.message}. The replies that "
            "came are kept."
        )
    lines = [
        f"None of {count(builder.attempts, 'attempt')} gave a query that can be used "
        f"({maker.pool.counts.summary()}):",
        *(f"  {line}" for line in _list_reasons(builder)),
        f"Look at what {maker.engine.name} is asked and answers, in the first attempt and in new "
        "ones:",
        f"  {command('show', maker.folder)} 0",
        f"  {command('preview', maker.folder)}",
    ]
    is_declined = all(one.outcome == "declined" for one in builder.ended)
    if is_declined and not maker.config.tools_per_query:
        lines.append(
            "No tools that were offered go together. Where requests of one tool each will do, add "
            "--set 'generate.tools_per_query={1: 1}'."
        )
    if find_writer(maker.config).asks_model:
        lines.append(
            "Replies that are in the journal are not asked for again: if the endpoint is mended "
            "since, give another --out."
        )
    return "\n".join(lines)


def _accepted(builder: BankBuilder) -> str:
    return count(builder.accepted, "query", "queries")


def _reasons(builder: BankBuilder, outcomes: Iterable[Outcome]) -> str:
    return ", ".join(said for _, said in _count_reasons(builder, outcomes))


def _list_reasons(builder: BankBuilder) -> Iterator[str]:
    """A line for each reason, with an example where it has particulars; failures come last."""
    for prefix, outcomes in (("", _REJECTED), ("failed: ", _FAILED)):
        for reason, said in _count_reasons(builder, outcomes):
            example = " ".join(next(iter(builder.examples.get(reason, ())), "").split())
            yield f"{prefix}{said}{example and f', such as: {example[:_SHOWN]}'}"


def _count_reasons(
    builder: BankBuilder, outcomes: Iterable[Outcome]
) -> Iterator[tuple[str, str]]:
    """Each reason, and how often it was one, such as "not-json 3 (1 in the polish)"; often first."""
    counts: Counter[str] = Counter()
    polished: Counter[str] = Counter()
    for outcome in outcomes:
        counter: Counter[str] = getattr(builder, outcome)
        for reason, number in counter.items():
            counts[reason or outcome] += number
            polished[reason or outcome] += builder.polishes[outcome, reason]
    for reason, number in sorted(counts.items(), key=lambda row: (-row[1], row[0])):
        of_those = f" ({polished[reason]:,} in the polish)" if polished[reason] else ""
        yield reason, f"{reason} {number:,}{of_those}"
