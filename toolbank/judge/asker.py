"""Asking a model for verdicts: each order of each pair by each criterion is a call by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count as count_from
from pathlib import Path

from toolbank.judge.config import JudgeConfig
from toolbank.judge.model import TEMPLATE, make_request, read_winner
from toolbank.judge.pairs import Pair
from toolbank.llm.chat import ChatRequest, EngineError, Rejection
from toolbank.llm.pool import Carrier, FailuresInARow, Pool
from toolbank.llm.progress import describe_spent, show_progress
from toolbank.llm.templates import PromptTemplate
from toolbank.system.errors import Interrupted, ToolbankError
from toolbank.system.numbers import count
from toolbank.system.terminal import command

ORDERS = 2
"""In how many orders a pair is shown: its query first, then second."""

Answer = str | Rejection
"""The winner, "A" (the first text), "B" or "tie"; or why there is none."""


@dataclass(frozen=True)
class Answers:
    """What a model said: answers and keys in the journal by pair, criteria with both orders in turn.

    `failed` counts those without a reply, for which another run may have one. `waiting` says what
    the user has to do before replies come, "" where none are waited for.
    """

    of: Sequence[Sequence[Answer]]
    keys: Sequence[Sequence[str]]
    failed: int
    spent: str
    problems: tuple[str, ...]
    waiting: str


class Asker:
    """Asks for all verdicts through the journal, in any order and as often as is needed."""

    def __init__(
        self, pool: Pool, pairs: Sequence[Pair], config: JudgeConfig, folder: Path
    ) -> None:
        self._pool = pool
        self._pairs = pairs
        self._config = config
        self._folder = folder
        template = PromptTemplate(TEMPLATE)
        self._calls: list[tuple[int, ChatRequest]] = [
            (number, make_request(template, number, criterion, first, second))
            for number, pair in enumerate(pairs)
            if not pair.is_identical
            for criterion in config.criteria
            for first, second in (
                (pair.query.text, pair.other.text),
                (pair.other.text, pair.query.text),
            )
        ]
        self._answers: dict[int, Answer] = {}
        self._failed: dict[int, Rejection] = {}
        self._failures = FailuresInARow(pool)

    async def ask(self) -> Answers:
        """Have every call answered that the journal doesn't hold.

        Raises:
            Interrupted: the user stopped it; every verdict that came is kept.
            ToolbankError: the endpoint is down or refuses, or the journal can't be written.
        """
        pool, total = self._pool, len(self._calls)
        numbers = count_from()

        def begin() -> int | None:
            number = next(numbers)
            return number if number < total else None

        def progress() -> tuple[int, int]:
            return len(self._answers) + len(self._failed), len(self._failed)

        carrier = Carrier(pool, self._ask_one, begin)
        async with pool.working():
            with show_progress("verdicts", progress, pool, total):
                waiting = await carrier.work()
        if pool.stop.cause == "interrupt":
            raise Interrupted(
                "stopped in judge. Every verdict that came is kept; the same command goes on from "
                "there."
            )
        if self._failed and not self._answers and not waiting:
            last = list(self._failed.values())[-1].detail
            raise ToolbankError(
                f"judge: no call was answered ({count(len(self._failed), 'call')}), the last with: "
                f"{last} Run the same command again when the endpoint answers."
            )
        gone = Rejection(pool.stop.cause or "budget")
        answers: list[list[Answer]] = [[] for _ in self._pairs]
        keys: list[list[str]] = [[] for _ in self._pairs]
        for call, (number, request) in enumerate(self._calls):
            found = self._answers.get(call) or self._failed.get(call, gone)
            answers[number].append(found)
            keys[number].append(request.key(pool.engine.identity))
        failed = total - len(self._answers)
        pending = carrier.pending if waiting else 0
        return Answers(
            answers,
            keys,
            failed,
            describe_spent(pool),
            tuple(self._list_problems(failed, pending)),
            waiting,
        )

    async def _ask_one(self, call: int) -> None:
        request = self._calls[call][1]
        try:
            with self._pool.attempt() as ask:
                reply = (await ask(request)).reply
        except EngineError as error:
            if error.fatal:
                raise
            self._failures.add(error)
            self._failed[call] = Rejection(error.reason, str(error))
            return
        self._failures.end()
        self._answers[call] = read_winner(reply)

    def _list_problems(self, failed: int, pending: int) -> Iterator[str]:
        """What the user should know of the verdicts."""
        stop = self._pool.stop
        if stop:
            yield f"stopped early: {stop.message}"
        if pending:
            yield f"{count(pending, 'verdict waits', 'verdicts wait')} for a reply"
        elif failed:
            yield f"verdicts missing: {failed:,}; the next run asks for them again"
        if self._failed:
            yield f"the last failure: {list(self._failed.values())[-1].detail}"
        rejected = Counter(
            one.reason for one in self._answers.values() if isinstance(one, Rejection)
        )
        if rejected:
            counted = sorted(rejected.items(), key=lambda row: (-row[1], row[0]))
            reasons = ", ".join(f"{reason} {n:,}" for reason, n in counted)
            yield (
                f"replies without a verdict: {reasons}. They are in the journal, and are not asked "
                "for again. Those of one query, by its id:\n"
                f"  {command('show', self._folder)} ID"
            )
