"""Having asks written for every tool: many calls in flight, folded in the order of tools."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from toolbank.asks.ask_builder import AskBuilder
from toolbank.asks.asker import Asker
from toolbank.asks.config import AsksConfig
from toolbank.asks.messages import (
    describe_wait,
    explain_interrupt,
    explain_nothing,
    list_problems,
    summarise,
)
from toolbank.bank.catalogue import Version
from toolbank.bank.records import Ask, Tool
from toolbank.generate.attempts import UNUSABLE_AT_FIRST
from toolbank.llm.journal import Journal
from toolbank.llm.pool import Carrier
from toolbank.llm.progress import show_progress
from toolbank.llm.stop import EarlyEnd
from toolbank.system import aio
from toolbank.system.errors import Interrupted, ToolbankError


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
