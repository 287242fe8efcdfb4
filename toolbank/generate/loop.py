"""Write, check, polish, check, keep: many attempts in flight, counted in their order."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from toolbank.bank.catalogue import Version
from toolbank.bank.records import AttemptRecord, Query, Tool
from toolbank.generate.attempt_maker import AttemptMaker
from toolbank.generate.attempts import Attempts, NothingAcceptedError
from toolbank.generate.bank_builder import BankBuilder
from toolbank.generate.config import GenerateConfig
from toolbank.generate.messages import (
    describe_wait,
    explain_interrupt,
    explain_nothing,
    list_problems,
    summarise,
)
from toolbank.generate.quotas import Quotas
from toolbank.generate.tool_numbers import fit_to_tools
from toolbank.generate.writers import find_writer
from toolbank.llm.journal import Journal
from toolbank.llm.progress import show_progress
from toolbank.llm.stop import EarlyEnd
from toolbank.system import aio
from toolbank.system.errors import Interrupted

_ATTEMPTS_PER_QUERY = 5
# Most objects live as long as their attempt, and few are in cycles: Python 3.11's 700 takes a tenth
# of the CPU.
_OBJECTS_BEFORE_COLLECTION = 20_000


@dataclass(frozen=True)
class Generated:
    """Accepted queries in attempt order, what became of each attempt, and exact counts.

    Not `complete`: queries are missing and calls failed or a budget is spent, so another run may
    get further. `waiting` is not empty where replies come with a later round: what the user has
    to do until then. There is no bank to write yet. `ended_early` tells of a budget
    that is spent.
    """

    queries: Collection[Query]
    attempts: Collection[AttemptRecord]
    counts: dict[str, Any]
    info: dict[str, Any]
    message: str
    complete: bool
    problems: tuple[str, ...]
    waiting: str = ""
    ended_early: EarlyEnd | None = None


def generate(
    tools: Sequence[Tool],
    config: GenerateConfig,
    *,
    domain: str,
    seed: int,
    journal: Journal,
    earlier: Sequence[Version] = (),
) -> Generated:
    """Run attempts until the wanted number of queries is accepted or attempts run out.

    Those that were begun under one of the `earlier` versions of the catalogue keep it.
    The result is a function of the arguments and the journal alone, whatever the concurrency.

    Raises:
        InputError: the recipe asks for what the bank or the engine can't give.
        NothingAcceptedError: nothing that it writes can be used; what became of each attempt.
        ToolbankError: the endpoint is down or refuses, or the run was interrupted. What was in
            flight has finished, and every reply is in the journal.
    """
    maker = AttemptMaker(tools, config, domain, seed, journal, earlier)
    with _fewer_collections():
        return aio.run(_generate(maker), uvloop=True)


def wanted_queries(config: GenerateConfig) -> int | None:
    """How many queries a run is to accept; None is as many as the engine brings."""
    return config.queries or find_writer(config).default_queries


def most_queries(config: GenerateConfig) -> int | None:
    """How many queries a run accepts at most: those wanted, or fewer where the engine ends.

    None where that isn't known.

    Raises:
        InputError: the file that it has them of can't be read.
    """
    brings = find_writer(config).count_queries(config)
    known = [n for n in (wanted_queries(config), brings) if n is not None]
    return min(known, default=None)


def most_attempts(config: GenerateConfig) -> int | None:
    """How many attempts a run makes at most; None is as many as there are offers."""
    wanted = wanted_queries(config)
    return config.max_attempts or (wanted and wanted * _ATTEMPTS_PER_QUERY)


@contextmanager
def _fewer_collections() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTION)
    try:
        yield
    finally:
        gc.set_threshold(*before)


async def _generate(maker: AttemptMaker) -> Generated:
    config, stop = maker.config, maker.pool.stop
    wanted = wanted_queries(config)
    builder = BankBuilder(wanted, config.near_duplicate, _quotas(maker, wanted))
    attempts = Attempts(maker, builder, most_attempts(config))
    waiting = ""
    async with maker.pool.working():
        total = wanted or maker.count_offers()
        with show_progress("queries", builder.progress, maker.pool, total):
            waiting = await attempts.work()
    if stop.cause == "interrupt":
        raise Interrupted(explain_interrupt(maker, builder))
    if not (builder.accepted or waiting):
        raise NothingAcceptedError(explain_nothing(maker, builder), builder.ended)
    counts = builder.counts()
    if builder.quotas:
        counts["tools_per_query"] = _count_numbers(builder.quotas, builder)
    is_short = wanted is not None and builder.accepted < wanted
    return Generated(
        queries=builder.queries,
        attempts=builder.ended,
        counts=counts,
        info={**maker.describe(), "examples": dict(sorted(builder.examples.items()))},
        message=(
            describe_wait(attempts.pending, builder)
            if waiting
            else summarise(maker, builder)
        ),
        complete=not (waiting or (is_short and counts["failed"]) or stop),
        problems=tuple(list_problems(maker, builder)),
        waiting=waiting,
        ended_early=EarlyEnd(stop.message, stop.option) if stop else None,
    )


def _quotas(maker: AttemptMaker, wanted: int | None) -> Quotas | None:
    if not (maker.config.tools_per_query and wanted):
        return None
    shares = fit_to_tools(maker.config, maker.tools).tools_per_query or {}
    most = most_attempts(maker.config)

    def number_of(attempt: int) -> int | None:
        is_past = most is not None and attempt >= most
        offer = None if is_past else maker.offer(attempt)
        return None if offer is None else offer.at_most

    return Quotas(shares, wanted, number_of)


def _count_numbers(quotas: Quotas, builder: BankBuilder) -> dict[str, dict[str, int]]:
    """How many attempts asked for each number of tools, and how many queries there are of it."""
    asked = Counter(quotas.number_of(record.attempt) for record in builder.ended)
    return {
        str(number): {"asked": asked[number], "accepted": builder.accepted_of[number]}
        for number in sorted(quotas.wanted)
    }
