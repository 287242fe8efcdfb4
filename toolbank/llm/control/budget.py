"""What a stage may spend."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from toolbank.chat.chat import ChatReply, ChatRequest, Message
from toolbank.llm.accounts import add_up_spent
from toolbank.llm.config import EngineConfig
from toolbank.llm.control.reserves import Cost, Reserves
from toolbank.llm.control.stop import Stop
from toolbank.llm.prices import cost, resolve_price
from toolbank.system.errors import InputError

if TYPE_CHECKING:
    from toolbank.journal import StageUsage

_CHARACTERS_PER_TOKEN = 4
# What a completion is taken to cost before the first came.
_FIRST_COMPLETION = 200.0


class Budget:
    """Calls, tokens and dollars over the run's folder, and minutes of this command.

    A request whose reply comes with a later round is promised: it counts as a call, and as the
    tokens and dollars that it will probably cost, until it is settled.

    Raises:
        InputError: dollars are to be counted, and the file of prices lacks the model.
    """

    def __init__(
        self, config: EngineConfig, usage: Iterable[StageUsage], now: float
    ) -> None:
        self._config = config.budget
        self._section = config.section
        self._price = resolve_price(config)
        self._begun = now
        usage = list(usage)
        self._reserves = Reserves(usage, self._price)
        spent = add_up_spent(usage, config)
        self._calls = spent.calls
        self._tokens = spent.tokens
        self._dollars = spent.dollars
        self._not_counted = spent.not_counted
        self._promised: dict[str, tuple[float, float]] = {}
        self._promised_tokens = 0.0
        self._promised_dollars = 0.0
        self._replies = 1
        self._completions = _FIRST_COMPLETION
        if self._config.dollars is not None and self._price is None:
            raise InputError(
                f"{config.price}: no price of {config.model!r}, and {self._section}.budget.dollars "
                "needs it to count by."
            )

    @property
    def dollars(self) -> float | None:
        """What was spent, or None where no price is known."""
        return None if self._price is None else self._dollars

    @property
    def is_counted(self) -> bool:
        """Whether calls, tokens or dollars are bounded."""
        config = self._config
        bounds = (config.calls, config.tokens, config.dollars)
        return any(bound is not None for bound in bounds)

    def fits(self, request: ChatRequest) -> bool:
        """Whether there is room for a call and what its row needs after it.

        That is beside what is in flight, and what the rows need that were begun before; the rows
        after it come last, so that what is missing in the end is at the end.
        """
        if not self.is_counted:
            return True
        reserves, row = self._reserves, request.attempt
        if self._counts_tokens and reserves.is_guess(request):
            return False
        need = reserves.need(request)
        if self._has_room(reserves.beside(row).plus(need)):
            return True
        before = reserves.before(row)
        if self._has_room(before.plus(need)):
            return True
        # Of the first call of all nobody knows what it costs, until it was made.
        is_first = not (reserves.is_known(request) or any(before))
        return is_first and self._has_room(Cost(calls=need.calls))

    def may_finish(self, request: ChatRequest, now: float) -> bool:
        """Whether only the minutes are over, and a row that was begun needs this call still."""
        return (
            self._reserves.has_begun(request.attempt)
            and not self._why_counted()
            and self.seconds_left(now) is not None
            and self.fits(request)
        )

    def may_fit_later(self, request: ChatRequest) -> bool:
        """Whether rows that were begun before may yet give back what is held for them."""
        return any(self._reserves.before(request.attempt))

    def send(self, request: ChatRequest) -> None:
        """Note a call that is made, and hold back what it and its row may cost."""
        self._calls += 1
        if self._is_bounded:
            self._reserves.begin(request)

    def end(self, request: ChatRequest, reply: ChatReply | None) -> None:
        """Note that a call has ended; one without a reply may be made again."""
        if self._is_bounded:
            self._reserves.end(request, reply)

    def end_row(self, row: int) -> None:
        """Hold nothing back any more for a row that makes no further call."""
        self._reserves.release(row)

    def take(self, reply: ChatReply) -> None:
        """Note what a reply cost."""
        self._tokens += reply.prompt_tokens + reply.completion_tokens
        if self._price is not None:
            self._dollars += cost(
                self._price, reply.prompt_tokens, reply.completion_tokens
            )

    def promise(self, key: str, messages: Sequence[Message]) -> None:
        """Note a request that is sent with a round; another promise of this key is over."""
        if not self.is_counted:
            return
        if self.withdraw(key):
            self._calls += 1
        characters = sum(len(message.content) for message in messages)
        prompt = characters / _CHARACTERS_PER_TOKEN
        completion = self._completions / self._replies
        price = self._price
        dollars = 0.0 if price is None else cost(price, prompt, completion)
        self._promised[key] = prompt + completion, dollars
        self._promised_tokens += prompt + completion
        self._promised_dollars += dollars

    def settle(self, key: str, reply: ChatReply | None) -> None:
        """Note what came of a request that was sent with a round; None where it failed."""
        self.withdraw(key)
        self._calls += 1
        if reply is not None:
            self.take(reply)
            self._replies += 1
            self._completions += reply.completion_tokens

    def withdraw(self, key: str) -> bool:
        """End a promise as if it had not been made; whether there was one."""
        promised = self._promised.pop(key, None)
        if promised is None:
            return False
        self._promised_tokens -= promised[0]
        self._promised_dollars -= promised[1]
        return True

    def seconds_left(self, now: float) -> float | None:
        """Seconds that this command may still make calls, or None where nothing says so."""
        minutes = self._config.minutes
        return None if minutes is None else self._begun + 60 * minutes - now

    def why_spent(self, now: float) -> str:
        """Which budget is spent and how to go on, or "" where none is."""
        left = self.seconds_left(now)
        is_late = left is not None and left <= 0
        return self._why_counted() or (self._tell_minutes() if is_late else "")

    def _why_counted(self) -> str:
        config = self._config
        calls = self._calls + len(self._promised)
        if config.calls is not None and calls >= config.calls:
            return self._tell(
                "calls", f"{config.calls:,}", str(2 * max(config.calls, calls))
            )
        tokens = self._tokens + self._promised_tokens
        if config.tokens is not None and tokens >= config.tokens:
            return self._tell(
                "tokens",
                f"{config.tokens:,}",
                str(2 * max(config.tokens, round(tokens))),
            )
        dollars = self._dollars + self._promised_dollars
        if config.dollars is not None and dollars >= config.dollars:
            told = self._tell(
                "dollars",
                f"{config.dollars:.10g}",
                f"{2 * max(config.dollars, round(dollars, 2)):.10g}",
            )
            return f"{told}{self._not_counted}"
        return ""

    def why_full(self, request: ChatRequest) -> str:
        """Which budget has no room for a call, and how to go on."""
        need = self._reserves.before(request.attempt).plus(self._reserves.need(request))
        config = self._config
        if config.calls is not None and self._calls + need.calls > config.calls:
            return self._tell_full("calls", config.calls, config.calls - self._calls)
        if config.tokens is not None and self._tokens + need.tokens > config.tokens:
            return self._tell_full(
                "tokens", config.tokens, config.tokens - self._tokens
            )
        bound = config.dollars or 0.0
        return self._tell_full("dollars", bound, round(bound - self._dollars, 4))

    @contextmanager
    def keep_minutes(self, stop: Stop, now: float) -> Iterator[None]:
        """Ask for a stop when the minutes are over, whatever is waited for then."""
        left = self.seconds_left(now)
        if left is None:
            yield
            return
        loop = asyncio.get_running_loop()
        timer = loop.call_later(left, stop.ask, "budget", self._tell_minutes())
        try:
            yield
        finally:
            timer.cancel()

    def _tell_minutes(self) -> str:
        return (
            f"the budget of {self._config.minutes:g} minutes a command is spent "
            f"({self._section}.budget.minutes); the same command goes on"
        )

    @property
    def _counts_tokens(self) -> bool:
        return self._config.tokens is not None or self._config.dollars is not None

    @property
    def _is_bounded(self) -> bool:
        return self.is_counted or self._config.minutes is not None

    def _has_room(self, need: Cost) -> bool:
        config = self._config
        return (
            (config.calls is None or self._calls + need.calls <= config.calls)
            and (config.tokens is None or self._tokens + need.tokens <= config.tokens)
            and (
                config.dollars is None or self._dollars + need.dollars <= config.dollars
            )
        )

    def _tell_full(self, unit: str, bound: float, left: float) -> str:
        return self._tell(
            unit,
            f"{bound:,.10g}",
            f"{2 * bound:.10g}",
            f" but for {left:,.10g}, too little for a further query",
        )

    def _tell(self, unit: str, spent: str, more: str, rest: str = "") -> str:
        return (
            f"the budget of {spent} {unit} is spent{rest}; to go on, raise it: "
            f"--set {self._section}.budget.{unit}={more}"
        )
