"""What a stage may spend."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from toolbank.errors import InputError
from toolbank.llm.accounts import add_up_spent
from toolbank.llm.chat import ChatReply, Message
from toolbank.llm.config import EngineConfig
from toolbank.llm.control.stop import Stop
from toolbank.llm.prices import cost, resolve_price

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

    def send(self) -> None:
        """Note a call that is made."""
        self._calls += 1

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
        config = self._config
        calls = self._calls + len(self._promised)
        if config.calls is not None and calls >= config.calls:
            return self._tell("calls", f"{config.calls:,}", str(2 * config.calls))
        tokens = self._tokens + self._promised_tokens
        if config.tokens is not None and tokens >= config.tokens:
            return self._tell("tokens", f"{config.tokens:,}", str(2 * config.tokens))
        dollars = self._dollars + self._promised_dollars
        if config.dollars is not None and dollars >= config.dollars:
            told = self._tell(
                "dollars", f"{config.dollars:.10g}", f"{2 * config.dollars:.10g}"
            )
            return f"{told}{self._not_counted}"
        left = self.seconds_left(now)
        return self._tell_minutes() if left is not None and left <= 0 else ""

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

    def _tell(self, unit: str, spent: str, more: str) -> str:
        return (
            f"the budget of {spent} {unit} is spent; to go on, raise it: "
            f"--set {self._section}.budget.{unit}={more}"
        )
