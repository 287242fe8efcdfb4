"""Which attempts are begun, and what becomes of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Coroutine
from typing import Any

from toolbank.bank.records import AttemptRecord
from toolbank.generate.attempt_maker import AttemptMaker
from toolbank.generate.bank_builder import BankBuilder
from toolbank.generate.messages import explain_nothing
from toolbank.llm.rounds import Missing
from toolbank.system.errors import ToolbankError

# A model whose first replies are all unusable will hardly do better.
_UNUSABLE_AT_FIRST = 50


class NothingAcceptedError(ToolbankError):
    """No attempt gave a query; `attempts` says what became of each."""

    def __init__(self, message: str, attempts: Collection[AttemptRecord]) -> None:
        super().__init__(message)
        self.attempts = attempts


class Attempts:
    """The attempts of a run, in their order; those that end go to the builder.

    One is begun where it is sure to count: no more are open than queries are missing, and none
    far ahead of one that takes long; and past the first few only once one is accepted. One whose reply comes with a later round is made again after
    it; `pending` is how many wait so at the end. When the run is stopped, attempts end with the
    call that is in flight, or by a budget with their last; those that got no end are left for the
    next run.
    """

    def __init__(
        self, maker: AttemptMaker, builder: BankBuilder, most_attempts: int | None
    ) -> None:
        self._maker = maker
        self._builder = builder
        self._most_attempts = most_attempts
        self.pending = 0
        self._next = 0
        self._open = 0
        self._missing: dict[int, Missing] = {}
        self._again: deque[int] = deque()

    async def work(self) -> str:
        """Make all attempts; gives what the user has to do before the pending ones, or "".

        Raises:
            NothingAcceptedError: none of the first few gave a query.
            ToolbankError: a round can't be sent.
        """
        pool = self._maker.pool
        while True:
            await pool.carry(self._begin)
            numbers = sorted(self._missing)
            requests = pool.choose_round([self._missing[n] for n in numbers])
            self._missing.clear()
            self._again.extend(numbers)
            todo = await pool.exchange(requests) if requests else None
            self.pending = len(requests) if todo else 0
            if todo != "":
                return todo or ""

    def _begin(self) -> Coroutine[Any, Any, None] | None:
        """The next attempt that is sure to count, if there is one."""
        if self._again:
            return self._make(self._again.popleft())
        if self._maker.pool.stop or not self._is_wanting():
            return None
        if self._next == self._most_attempts or self._maker.offer(self._next) is None:
            return None
        self._next += 1
        return self._make(self._next - 1)

    def _is_wanting(self) -> bool:
        builder = self._builder
        if not (self._missing or builder.has_room_for(self._next)):
            return False
        found = builder.accepted or builder.waiting_candidates or self._missing
        if self._next >= _UNUSABLE_AT_FIRST and not found:
            return False
        waiting = self._open + len(self._missing) + builder.waiting_candidates
        return builder.wanted is None or builder.accepted + waiting < builder.wanted

    def _make(self, number: int) -> Coroutine[Any, Any, None]:
        self._open += 1
        return self._attempt(number)

    async def _attempt(self, number: int) -> None:
        builder = self._builder
        try:
            builder.accept(await self._maker.attempt(number))
        except Missing as missing:
            self._missing[number] = missing
        finally:
            self._open -= 1
        if builder.attempts >= _UNUSABLE_AT_FIRST and not builder.accepted:
            raise NothingAcceptedError(
                explain_nothing(self._maker, builder), builder.ended
            )
