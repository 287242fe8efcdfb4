"""Which attempts are begun, and what becomes of them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection

from toolbank.bank.records import AttemptRecord
from toolbank.generate.attempt_maker import AttemptMaker
from toolbank.generate.bank_builder import BankBuilder
from toolbank.generate.messages import explain_nothing
from toolbank.llm.pool import Carrier
from toolbank.system.errors import ToolbankError

# A model whose first replies are all unusable will hardly do better.
UNUSABLE_AT_FIRST = 50


class NothingAcceptedError(ToolbankError):
    """No attempt gave a query; `attempts` says what became of each."""

    def __init__(self, message: str, attempts: Collection[AttemptRecord]) -> None:
        super().__init__(message)
        self.attempts = attempts


class Attempts:
    """The attempts of a run, in their order; those that end go to the builder.

    One is begun where it is sure to count: no more are open than queries are missing, and none
    far ahead of one that takes long; and past the first few only once one is accepted. Where there
    are quotas, so it is for each number of tools: an attempt whose number may have enough waits
    until that is sure. `pending` is how many wait for a later round at the end.
    """

    def __init__(
        self, maker: AttemptMaker, builder: BankBuilder, most_attempts: int | None
    ) -> None:
        self._maker = maker
        self._builder = builder
        self._most_attempts = most_attempts
        self._carrier = Carrier(maker.pool, self._attempt, self._begin)
        self._next = 0
        self._begun = 0
        # By number of tools: attempts under way, and those that may not be needed.
        self._under_way: Counter[int] = Counter()
        self._deferred: dict[int, deque[int]] = {}

    @property
    def pending(self) -> int:
        """How many wait for their replies."""
        return self._carrier.pending

    async def work(self) -> str:
        """Make all attempts; gives what the user has to do before the pending ones, or "".

        Raises:
            NothingAcceptedError: none of the first few gave a query.
            ToolbankError: a round can't be sent.
        """
        return await self._carrier.work()

    def _begin(self) -> int | None:
        """The next attempt that is sure to count, if there is one."""
        number = self._choose() if self._is_wanting() else None
        if number is not None:
            self._begun += 1
        return number

    def _is_wanting(self) -> bool:
        builder, missing = self._builder, self._carrier.missing
        found = builder.accepted or builder.waiting_candidates or missing
        if self._begun >= UNUSABLE_AT_FIRST and not found:
            return False
        waiting = self._carrier.open + len(missing) + builder.waiting_candidates
        return builder.wanted is None or builder.accepted + waiting < builder.wanted

    def _choose(self) -> int | None:
        quotas = self._builder.quotas
        for asked, deferred in self._deferred.items():
            while deferred and self._builder.is_passed_over(deferred[0]):
                deferred.popleft()
            if deferred and self._take(asked):
                return deferred.popleft()
        while self._has_next():
            number = self._next
            self._next += 1
            asks_for = quotas.number_of(number) if quotas else None
            if asks_for is None or self._take(asks_for):
                return number
            self._deferred.setdefault(asks_for, deque()).append(number)
        return None

    def _has_next(self) -> bool:
        is_near = self._carrier.missing or self._builder.has_room_for(self._next)
        if not is_near or self._next == self._most_attempts:
            return False
        return self._maker.offer(self._next) is not None

    def _take(self, asked: int) -> bool:
        """Count an attempt as under way, if another query of so many tools is wanted."""
        builder = self._builder
        there = builder.accepted_of[asked] + builder.waiting_of[asked]
        quotas = builder.quotas
        if quotas and not quotas.has_room(asked, there + self._under_way[asked]):
            return False
        self._under_way[asked] += 1
        return True

    async def _attempt(self, number: int) -> None:
        builder = self._builder
        attempt = await self._maker.attempt(number)
        if builder.quotas and (asked := builder.quotas.number_of(number)) is not None:
            self._under_way[asked] -= 1
        builder.accept(attempt)
        if builder.attempts >= UNUSABLE_AT_FIRST and not builder.accepted:
            raise NothingAcceptedError(
                explain_nothing(self._maker, builder), builder.ended
            )
