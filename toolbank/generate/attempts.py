"""Which attempts are begun, and what becomes of them."""

from __future__ import annotations

from collections.abc import Collection

from toolbank.bank.records import AttemptRecord
from toolbank.generate.attempt_maker import AttemptMaker
from toolbank.generate.bank_builder import BankBuilder
from toolbank.generate.messages import explain_nothing
from toolbank.llm.carrier import Carrier
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
    far ahead of one that takes long; and past the first few only once one is accepted. `pending`
    is how many wait for a later round at the end.
    """

    def __init__(
        self, maker: AttemptMaker, builder: BankBuilder, most_attempts: int | None
    ) -> None:
        self._maker = maker
        self._builder = builder
        self._most_attempts = most_attempts
        self._carrier = Carrier(maker.pool, self._attempt, self._begin)
        self._next = 0

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
        if not self._is_wanting():
            return None
        if self._next == self._most_attempts or self._maker.offer(self._next) is None:
            return None
        self._next += 1
        return self._next - 1

    def _is_wanting(self) -> bool:
        builder, missing = self._builder, self._carrier.missing
        if not (missing or builder.has_room_for(self._next)):
            return False
        found = builder.accepted or builder.waiting_candidates or missing
        if self._next >= UNUSABLE_AT_FIRST and not found:
            return False
        waiting = self._carrier.open + len(missing) + builder.waiting_candidates
        return builder.wanted is None or builder.accepted + waiting < builder.wanted

    async def _attempt(self, number: int) -> None:
        builder = self._builder
        builder.accept(await self._maker.attempt(number))
        if builder.attempts >= UNUSABLE_AT_FIRST and not builder.accepted:
            raise NothingAcceptedError(
                explain_nothing(self._maker, builder), builder.ended
            )
