"""What a stage may spend."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from toolbank.errors import InputError
from toolbank.llm.accounts import add_up_spent
from toolbank.llm.chat import ChatReply
from toolbank.llm.config import EngineConfig
from toolbank.llm.prices import cost, resolve_price

if TYPE_CHECKING:
    from toolbank.journal import StageUsage


class Budget:
    """Calls, tokens and dollars over the run's folder, and minutes of this command.

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
        if self._config.dollars is not None and self._price is None:
            raise InputError(
                f"{config.price}: no price of {config.model!r}, and {self._section}.budget.dollars "
                "needs it to count by."
            )

    @property
    def dollars(self) -> float | None:
        """What was spent, or None where no price is known."""
        return None if self._price is None else self._dollars

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

    def seconds_left(self, now: float) -> float | None:
        """Seconds that this command may still make calls, or None where nothing says so."""
        minutes = self._config.minutes
        return None if minutes is None else self._begun + 60 * minutes - now

    def why_spent(self, now: float) -> str:
        """Which budget is spent and how to go on, or "" where none is."""
        config = self._config
        if config.calls is not None and self._calls >= config.calls:
            return self._tell("calls", f"{config.calls:,}", str(2 * config.calls))
        if config.tokens is not None and self._tokens >= config.tokens:
            return self._tell("tokens", f"{config.tokens:,}", str(2 * config.tokens))
        if config.dollars is not None and self._dollars >= config.dollars:
            told = self._tell(
                "dollars", f"{config.dollars:.10g}", f"{2 * config.dollars:.10g}"
            )
            return f"{told}{self._not_counted}"
        left = self.seconds_left(now)
        if left is not None and left <= 0:
            return (
                f"the budget of {config.minutes:g} minutes a command is spent "
                f"({self._section}.budget.minutes); the same command goes on"
            )
        return ""

    def _tell(self, unit: str, spent: str, more: str) -> str:
        return (
            f"the budget of {spent} {unit} is spent; to go on, raise it: "
            f"--set {self._section}.budget.{unit}={more}"
        )
