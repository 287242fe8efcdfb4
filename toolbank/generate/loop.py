"""Write, check, polish, check, keep: many attempts in flight, folded in their order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tqdm import tqdm

from toolbank import aio
from toolbank.bank import Query, Tool
from toolbank.errors import ToolbankError
from toolbank.generate.attempt import Writer
from toolbank.generate.config import GenerateConfig
from toolbank.generate.fold import Attempt, Fold
from toolbank.journal import Journal
from toolbank.llm.chat import EngineError

DEFAULT_QUERIES = 1000
_ATTEMPTS_PER_QUERY = 5
# An endpoint that fails so often in a row is down; a model whose first replies are all
# unusable will hardly do better.
_FAILURES_IN_A_ROW = 10
_UNUSABLE_AT_FIRST = 50


@dataclass(frozen=True)
class Generated:
    """Accepted queries in attempt order, exact counts, and what made them.

    Not `complete`: queries are missing and calls failed, so another run may get further.
    `waiting` is not empty where replies come with a later round: what the user has to do until
    then. There is no bank to write yet.
    """

    queries: tuple[Query, ...]
    counts: dict[str, Any]
    info: dict[str, Any]
    message: str
    complete: bool
    problems: tuple[str, ...]
    waiting: str = ""


def generate(
    tools: Sequence[Tool],
    config: GenerateConfig,
    *,
    domain: str,
    seed: int,
    journal: Journal,
) -> Generated:
    """Run attempts until the wanted number of queries is accepted or attempts run out.

    The result is a function of the arguments and the journal alone, whatever the concurrency.

    Raises:
        InputError: the recipe asks for what the bank or the engine can't give.
        ToolbankError: the endpoint is down or refuses, or nothing it writes can be used.
    """
    return aio.run(_generate(Writer(tools, config, domain, seed, journal)))


def wanted_queries(config: GenerateConfig) -> int | None:
    """How many queries a run is to accept; None is as many as `recorded` brings."""
    if config.queries is None and config.engine != "recorded":
        return DEFAULT_QUERIES
    return config.queries


async def _generate(writer: Writer) -> Generated:
    config = writer.config
    wanted = wanted_queries(config)
    fold = Fold(wanted, config.near_duplicate)
    limit = config.max_attempts or (wanted and wanted * _ATTEMPTS_PER_QUERY)
    with tqdm(
        total=wanted or writer.count_offers(),
        desc="queries",
        unit="query",
        disable=None,
    ) as bar:
        crew = _Crew(writer, fold, limit, bar)
        try:
            await crew.work()
        finally:
            await writer.engine.close()
    counts = fold.counts()
    if not fold.queries:
        raise ToolbankError(_nothing_usable(writer, fold))
    short = wanted is not None and len(fold.queries) < wanted
    message = f"{len(fold.queries):,} queries of {fold.attempts:,} attempts"
    if short:
        message += f" ({wanted:,} were wanted)"
    return Generated(
        queries=tuple(fold.queries),
        counts=counts,
        info={**writer.describe(), "examples": dict(sorted(fold.examples.items()))},
        message=f"{message}; {writer.asker.counts.summary()}",
        complete=not (short and counts["failed"]),
        problems=tuple(_problems(writer, fold)),
    )


class _Crew:
    """Workers that carry one attempt each from the offer to the fold."""

    def __init__(
        self, writer: Writer, fold: Fold, limit: int | None, bar: tqdm[Any]
    ) -> None:
        self._writer = writer
        self._fold = fold
        self._limit = limit
        self._bar = bar
        self._next = 0
        self._failed_in_a_row = 0
        self._folded = asyncio.Condition()

    async def work(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._writer.config.most_in_flight):
                    group.create_task(self._carry())
        except* ToolbankError as errors:
            raise errors.exceptions[0] from None

    async def _carry(self) -> None:
        while (number := await self._take()) is not None:
            attempt = await self._writer.attempt(number)
            self._watch(attempt)
            async with self._folded:
                before = len(self._fold.queries)
                self._fold.add(attempt)
                self._folded.notify_all()
            self._bar.update(len(self._fold.queries) - before)
            self._bar.set_postfix(attempts=self._fold.attempts, refresh=False)
            if self._fold.attempts >= _UNUSABLE_AT_FIRST and not self._fold.queries:
                raise ToolbankError(_nothing_usable(self._writer, self._fold))

    async def _take(self) -> int | None:
        """The next attempt's number, once it is sure to count, or None when all are given out.

        No more attempts are open than queries are missing, so none is asked for in vain.
        """
        async with self._folded:
            while True:
                if self._fold.is_full or self._next == self._limit:
                    return None
                if self._writer.offer(self._next) is None:
                    return None
                is_open = self._next - self._fold.attempts
                wanted = self._fold.wanted
                if wanted is None or len(self._fold.queries) + is_open < wanted:
                    self._next += 1
                    return self._next - 1
                await self._folded.wait()

    def _watch(self, attempt: Attempt) -> None:
        if attempt.outcome != "failed":
            self._failed_in_a_row = 0
            return
        self._failed_in_a_row += 1
        if self._failed_in_a_row >= _FAILURES_IN_A_ROW:
            raise EngineError(
                f"{self._failed_in_a_row} attempts failed one after another, the last with: "
                f"{self._writer.last_failure} The replies that came are kept; run the same "
                "command again when the endpoint answers.",
                reason=attempt.reason,
            )


def _problems(writer: Writer, fold: Fold) -> Iterator[str]:
    told = _reasons(fold)
    if told:
        yield f"not accepted: {told}"
    if fold.failed:
        yield f"the last failure: {writer.last_failure}"
    missing = writer.describe()["missing_tools"]
    if missing:
        yield (
            f"{len(missing)} offered tools are not in the bank ({sum(missing.values())} "
            f"offers), such as {next(iter(missing))}; all are in bank.json"
        )


def _reasons(fold: Fold) -> str:
    reasons = {
        **({"declined": fold.declined.total()} if fold.declined else {}),
        **fold.rejected,
        **fold.failed,
    }
    return ", ".join(f"{reason} {n:,}" for reason, n in sorted(reasons.items()))


def _nothing_usable(writer: Writer, fold: Fold) -> str:
    return (
        f"None of {fold.attempts} attempts gave a query that can be used "
        f"({_reasons(fold)}; {writer.asker.counts.summary()}). Look at what {writer.engine.name} is "
        "asked and answers: toolbank preview RECIPE. Replies that are in the journal are not "
        "asked for again: if the endpoint is mended since, give another --out."
    )
