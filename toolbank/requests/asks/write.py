"""Write asks for every tool: many calls at once, folded in a fixed order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from toolbank.bank.catalogue import Version
from toolbank.bank.records import Ask, Provenance, Tool
from toolbank.llm.chat import ChatRequest, EngineError, number_of
from toolbank.llm.engines.kind import EngineContext
from toolbank.llm.journal import Journal
from toolbank.llm.pool import Carrier, FailuresInARow, Pool
from toolbank.llm.progress import describe_spent, note_unpriced, show_progress
from toolbank.llm.stop import EarlyEnd
from toolbank.requests.asks.config import AsksConfig
from toolbank.requests.asks.prompts import (
    Answered,
    AskPrompts,
    Lost,
    group_asked,
    read_asks,
)
from toolbank.requests.asks.writers import find_ask_writer
from toolbank.requests.write.checks import TextChecker
from toolbank.requests.write.loop import UNUSABLE_AT_FIRST
from toolbank.requests.write.near_duplicates import NearDuplicates
from toolbank.requests.write.writers import describe_writer
from toolbank.system import aio
from toolbank.system.errors import Interrupted, ToolbankError
from toolbank.system.numbers import count


class Asker:
    """Asks for one group of siblings after the other; nothing that one leaves counts for the next.

    `groups` are those of the bank's tools that are not withheld, or those that the engine brings.
    `pool` makes and counts the calls, and `last_failure` is the message of the newest failed one.
    `earlier` are the versions of the catalogue before `tools`, as of `AskPrompts`.

    Raises:
        InputError: the engine lacks a model, key or file, or the prompt isn't there.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        config: AsksConfig,
        domain: str,
        seed: int,
        journal: Journal,
        withheld: Collection[str] = (),
        earlier: Sequence[Version] = (),
    ) -> None:
        self.config = config
        context = EngineContext(tools, seed, journal.path.parent)
        self.pool = Pool(find_ask_writer(config), config, journal, context)
        self.engine = self.pool.engine
        self.last_failure = ""
        self.groups = list(self._group(tools, withheld))
        self._prompts = AskPrompts(tools, config, domain, withheld, earlier)
        self._checker = TextChecker(tools)
        self._failures = FailuresInARow(self.pool)
        self._seed = seed

    def request(self, number: int) -> ChatRequest:
        """What is asked for a group."""
        return self._prompts.ask(self.groups[number])

    async def ask(self, number: int) -> Answered:
        """Ask, and check what comes.

        Raises:
            EngineError: no call of this run can succeed.
            Missing: the reply comes with a later round.
            Stopped: the run is ending, and the call was not made.
            ToolbankError: the journal can't be written.
        """
        request = self.request(number)
        try:
            with self.pool.attempt() as ask:
                asked = await ask(request)
        except EngineError as error:
            self.last_failure = str(error)
            if error.fatal:
                raise
            self._failures.add(error)
            lost = Lost("failed", error.reason, str(error))
            key = request.key(self.engine.identity)
            return Answered(number, key, asks=dict.fromkeys(self.config.keys, lost))
        self._failures.end()
        asks = read_asks(asked.reply, self.config, self._checker)
        return Answered(number, asked.key, asked.reply.model, asks)

    def trace(self, answered: Answered) -> Provenance:
        """Where the asks of a reply came from."""
        return Provenance(
            attempt=number_of(self.groups[answered.number][0].name),
            engine=self.engine.name,
            model=answered.model,
            prompt_hash=self._prompts.hash,
            seed=self._seed,
            requests=(answered.key,),
        )

    def describe(self) -> dict[str, Any]:
        """What wrote the asks, for asks.json."""
        return describe_writer(self.engine, self._prompts.hash)

    def _group(
        self, tools: Sequence[Tool], withheld: Collection[str]
    ) -> Iterator[tuple[Tool, ...]]:
        brought: Sequence[Sequence[str]] | None = getattr(self.engine, "groups", None)
        if brought is None:
            yield from group_asked(tools, withheld)
            return
        by_name = {tool.name: tool for tool in tools}
        for names in brought:
            if left := tuple(by_name[name] for name in names if name not in withheld):
                yield left


@dataclass
class AskBuilder:
    """Takes the replies for groups of siblings in any order, and folds them in theirs.

    The result depends on the replies alone, not on when each came in. Near-duplicates are judged
    at the fold, against all that was accepted before.
    """

    groups: Sequence[tuple[Tool, ...]]
    config: AsksConfig
    passed: int = 0
    lost: int = 0
    _answered: dict[int, Answered] = field(default_factory=dict)

    @property
    def ended(self) -> int:
        """Of how many groups the reply has come, or the call has failed."""
        return len(self._answered)

    def accept(self, answered: Answered) -> None:
        """Take what came for a group."""
        self._answered[answered.number] = answered
        lost = sum(isinstance(one, Lost) for one in answered.asks.values())
        self.lost += lost
        self.passed += len(answered.asks) - lost

    def progress(self) -> tuple[int, int]:
        """Of how many groups the reply has come, and how many asks are lost."""
        return self.ended, self.lost

    def fold(self, trace: Callable[[Answered], Provenance]) -> Folded:
        """What there is, in the order of groups; `trace` says where a reply came from."""
        folded = Folded(self.config)
        texts: list[str] = []
        seen = NearDuplicates(self.config.near_duplicate, texts.__getitem__)
        writers: list[str] = []
        for number, group in enumerate(self.groups):
            if number not in self._answered:
                continue
            answered = self._answered[number]
            kept: list[tuple[str, str]] = []
            for key, one in answered.asks.items():
                kind = self.config.keys[key]
                if isinstance(one, str) and (like := seen.find_like(one)) is not None:
                    detail = f"like one of {writers[like]}: {texts[like]}"
                    folded.lose(
                        group[0],
                        kind,
                        Lost("rejected", "near-duplicate", detail),
                        answered.key,
                    )
                elif isinstance(one, str):
                    texts.append(one)
                    writers.append(group[0].name)
                    seen.add(one)
                    kept.append((kind, one))
                else:
                    folded.lose(group[0], kind, one, answered.key)
            folded.keep(group, kept, trace(answered) if kept else None)
        return folded


@dataclass
class Folded:
    """The asks, tool by tool; what was lost; and how much of each kind there is.

    `ended` counts groups, `tools` those tools that have an ask; `by_kind` counts texts, by kind
    and how they ended. A text that siblings share counts once.
    """

    config: AsksConfig
    asks: list[Ask] = field(default_factory=list)
    not_accepted: list[dict[str, str]] = field(default_factory=list)
    reasons: dict[str, Counter[str]] = field(
        default_factory=lambda: {
            outcome: Counter() for outcome in ("declined", "rejected", "failed")
        }
    )
    by_kind: dict[str, Counter[str]] = field(default_factory=dict)
    ended: int = 0
    tools: int = 0
    accepted: int = 0

    def keep(
        self,
        group: Sequence[Tool],
        kept: Sequence[tuple[str, str]],
        provenance: Provenance | None,
    ) -> None:
        """Give each tool of a group the asks that passed, as kind and text."""
        self.ended += 1
        self.tools += len(group) if kept else 0
        self.accepted += len(kept)
        for kind, _ in kept:
            self.by_kind.setdefault(kind, Counter())["accepted"] += 1
        for tool in group:
            self.asks += [
                Ask(tool=tool.name, kind=kind, ask=text, provenance=provenance)
                for kind, text in kept
            ]

    def lose(self, tool: Tool, kind: str, lost: Lost, key: str) -> None:
        """Note an ask that didn't get in, and why."""
        self.reasons[lost.outcome][lost.reason or lost.outcome] += 1
        self.by_kind.setdefault(kind, Counter())[lost.outcome] += 1
        self.not_accepted.append(
            {
                "tool": tool.name,
                "kind": kind,
                "outcome": lost.outcome,
                "reason": lost.reason,
                "detail": lost.detail,
                "request": key,
            }
        )

    def counts(self) -> dict[str, Any]:
        """Accepted + declined + rejected + failed = `per_tool` for each group that ended."""
        return {
            "groups": self.ended,
            "tools": self.tools,
            "accepted": self.accepted,
            "declined": self.reasons["declined"].total(),
            "rejected": dict(sorted(self.reasons["rejected"].items())),
            "failed": dict(sorted(self.reasons["failed"].items())),
            "by_kind": {
                kind: dict(sorted(self.by_kind[kind].items()))
                for kind in dict.fromkeys(self.config.kinds)
                if kind in self.by_kind
            },
        }

    def describe_reasons(self, outcome: str) -> Iterator[str]:
        """Such as "not-json 3", the most common first."""
        found = self.reasons[outcome].items()
        for reason, number in sorted(found, key=lambda row: (-row[1], row[0])):
            yield f"{reason} {number:,}"


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


@dataclass(frozen=True)
class Written:
    """The asks in the order of tools, the content of asks.json, and for people what was done.

    `lacks` says for how many tools none was asked, where another run may get further. `waiting` is
    not empty where replies come with a later round: what the user has to do until then.
    """

    asks: Sequence[Ask]
    content: dict[str, Any]
    message: str
    lacks: str = ""
    problems: tuple[str, ...] = ()
    waiting: str = ""
    ended_early: EarlyEnd | None = None


def ask_for_tools(
    tools: Sequence[Tool],
    config: AsksConfig,
    *,
    domain: str,
    seed: int,
    journal: Journal,
    withheld: Collection[str] = (),
    earlier: Sequence[Version] = (),
) -> Written:
    """Have asks written for every tool that is not withheld, one call for each group of siblings.

    A tool that is as it was in `earlier` versions of the catalogue keeps its prompt.
    The result is a function of the arguments and the journal alone, whatever the concurrency.
    Keys of the content: what wrote them (`engine`, `model`, `prompt_hash`, `missing_tools`),
    `counts`, and `not_accepted`, a row with the reason for each ask that is not there.

    Raises:
        InputError: the engine, its file or the prompt can't be used.
        ToolbankError: nothing that it writes can be used, the endpoint is down or refuses, or the
            run was interrupted. What was in flight has finished, and every reply is in the journal.
    """
    asker = Asker(tools, config, domain, seed, journal, withheld, earlier)
    n_tools = len(tools) - len(withheld)
    return aio.run(_ask_for_tools(asker, n_tools), uvloop=True)


async def _ask_for_tools(asker: Asker, n_tools: int) -> Written:
    pool, total = asker.pool, len(asker.groups)
    builder = AskBuilder(asker.groups, asker.config)
    numbers = iter(range(total))
    begun = 0

    def begin() -> int | None:
        """The next group; past the first few only once anything can be used."""
        nonlocal begun
        found = builder.passed or carrier.missing
        if begun >= UNUSABLE_AT_FIRST and not found:
            return None
        begun += 1
        return next(numbers, None)

    async def ask(number: int) -> None:
        builder.accept(await asker.ask(number))

    carrier = Carrier(pool, ask, begin)
    async with pool.working():
        with show_progress("tools", builder.progress, pool, total):
            waiting = await carrier.work()
    if pool.stop.cause == "interrupt":
        raise Interrupted(explain_interrupt(asker, builder.ended))
    folded = builder.fold(asker.trace)
    if not (folded.accepted or waiting):
        raise ToolbankError(explain_nothing(asker, folded))
    gone = (
        total
        - folded.ended
        + folded.reasons["failed"].total() // len(asker.config.keys)
    )
    return Written(
        folded.asks,
        {
            **asker.describe(),
            "counts": folded.counts(),
            "not_accepted": folded.not_accepted,
        },
        describe_wait(carrier.pending) if waiting else summarise(asker, folded),
        lacks=f"asks for {gone:,} of {total:,} tools" if gone else "",
        problems=tuple(list_problems(asker, folded, n_tools)),
        waiting=waiting,
        ended_early=EarlyEnd(pool.stop.message, pool.stop.option)
        if pool.stop
        else None,
    )
