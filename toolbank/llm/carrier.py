"""Many numbered attempts, carried to their ends through a pool, round after round."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from toolbank.llm.rounds import Missing

if TYPE_CHECKING:
    from toolbank.llm.pool import Pool


class Carrier:
    """Carries numbered attempts to their ends.

    `make` makes one, and `begin` gives the number of the next, or None where none is to begin
    now. One whose reply comes with a later round is made again after it: `missing` are those,
    and `pending` is how many wait so at the end. `open` is how many are under way. When the run
    is stopped, attempts end with the call that is in flight, or by a budget with their last; those
    that got no end are left for the next run.
    """

    def __init__(
        self,
        pool: Pool,
        make: Callable[[int], Awaitable[None]],
        begin: Callable[[], int | None],
    ) -> None:
        self.missing: dict[int, Missing] = {}
        self.open = 0
        self.pending = 0
        self._pool = pool
        self._make = make
        self._next = begin
        self._again: deque[int] = deque()

    async def work(self) -> str:
        """Make all attempts; gives what the user has to do before the pending ones, or "".

        Raises:
            ToolbankError: an attempt raised it, or a round can't be sent.
        """
        pool = self._pool
        while True:
            await pool.carry(self._begin)
            numbers = sorted(self.missing)
            requests = pool.choose_round([self.missing[n] for n in numbers])
            self.missing.clear()
            self._again.extend(numbers)
            todo = await pool.exchange(requests) if requests else None
            self.pending = len(requests) if todo else 0
            if todo != "":
                return todo or ""

    def _begin(self) -> Coroutine[Any, Any, None] | None:
        if self._again:
            return self._start(self._again.popleft())
        number = None if self._pool.stop else self._next()
        return None if number is None else self._start(number)

    def _start(self, number: int) -> Coroutine[Any, Any, None]:
        self.open += 1
        return self._carry(number)

    async def _carry(self, number: int) -> None:
        try:
            await self._make(number)
        except Missing as missing:
            self.missing[number] = missing
        finally:
            self.open -= 1
