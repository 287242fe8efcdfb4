"""The budget of a stage: calls, tokens, dollars and minutes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolbank.llm.accounts import (
    FIRST_COMPLETION,
    cost,
    cost_of,
    describe_estimated,
    known_prices,
    own_usage,
)
from toolbank.llm.stop import EarlyEnd
from toolbank.system.errors import InputError
from toolbank.system.numbers import count

if TYPE_CHECKING:
    from toolbank.llm.chat import ChatReply, EngineError
    from toolbank.llm.config import EngineConfig
    from toolbank.llm.journal import StepUsage
    from toolbank.llm.stop import Stop

# The most attempts that begin before the first reply shows what a call costs.
_MOST_GUESSED = 8
_UNITS = ("calls", "tokens", "dollars")


@dataclass(eq=False)
class Reservation:
    """The calls that are reserved for an attempt, the one in flight included."""

    calls: int
    in_flight: bool = False


class Budget:
    """The calls, tokens and dollars spent in the run folder, and the minutes of this command.

    An attempt reserves all its calls before the first and settles at its end, so that none is cut
    short. A reserved call is assumed to cost the mean of the calls before. Tokens that the
    endpoint does not report are estimated. A failed try counts as a call, with the tokens that it
    was charged for. If failed tries use up the reserve, the newest attempts lose their calls, so
    that what is missing in the end is at the end; `cut` says why, or is None.

    Raises:
        InputError: dollars are counted, and the price file lacks the model.
    """

    def __init__(
        self, config: EngineConfig, usage: Iterable[StepUsage], begun: float
    ) -> None:
        self._config = config.budget
        self._section = config.section
        self._begun = begun
        prices, used = known_prices(config), own_usage(usage, config)
        self._price = prices.get(config.model)
        self._estimated = sum(one.estimated for one in used)
        costs = [(cost_of(one, prices, config.model), one.replies) for one in used]
        self._dollars = sum(dollars for dollars, _ in costs if dollars is not None)
        self._unpriced = sum(replies for dollars, replies in costs if dollars is None)
        self._replies = sum(one.replies for one in used)
        self._calls = self._replies + sum(
            tries for one in used for tries in one.failed_tries.values()
        )
        self._prompt_tokens = float(sum(one.prompt_tokens for one in used))
        self._completion_tokens = float(sum(one.completion_tokens for one in used))
        self._tokens = self._prompt_tokens + self._completion_tokens
        # Of one call, until the first reply.
        self._guessed_prompt = 0.0
        self.cut: EarlyEnd | None = None
        self._open: dict[Reservation, None] = {}
        self._held = 0
        if self._config.dollars is not None and self._price is None:
            raise InputError(
                f"{config.price}: there is no price of {config.model!r}, and "
                f"{self._section}.budget.dollars needs one. Add it to the file."
            )

    @property
    def dollars(self) -> float | None:
        """The dollars spent; None if no price is known."""
        return None if self._price is None else self._dollars

    @property
    def is_estimated(self) -> bool:
        """Whether any tokens, and so dollars, are estimated."""
        return self._estimated > 0

    @property
    def mean_completion(self) -> float:
        """The mean tokens of a completion, or a guess before the first one."""
        if not self._replies:
            return FIRST_COMPLETION
        return self._completion_tokens / self._replies

    @property
    def is_open(self) -> bool:
        """Whether anything is reserved, so that there may be more room later."""
        return bool(self._open)

    def reserve(self, calls: int, prompt_tokens: float) -> Reservation | None:
        """Reserve so many calls; None if there is no room for them.

        `prompt_tokens` is the size of the first prompt, from which the cost of calls is estimated
        before the first reply. The very first call is always allowed.
        """
        is_first = not (self._replies or self._open)
        counts_tokens = (
            self._config.tokens is not None or self._config.dollars is not None
        )
        if counts_tokens and not self._replies and len(self._open) >= _MOST_GUESSED:
            return None
        units = ("calls",) if is_first and not self._tokens else _UNITS
        if self._find_excess(self._held + calls, prompt_tokens, units):
            return None
        self._guessed_prompt = prompt_tokens
        return self.hold(calls)

    def hold(self, calls: int) -> Reservation:
        """Reserve calls whatever room there is."""
        reservation = Reservation(calls)
        self._open[reservation] = None
        self._held += calls
        return reservation

    def answer(self, reservation: Reservation, reply: ChatReply) -> None:
        """Count a call that was answered."""
        self._replies += 1
        self._calls += 1
        self._charge(reply)
        reservation.in_flight = False
        self._release(reservation, 1)

    def fail(self, reservation: Reservation, error: EngineError) -> None:
        """Count a failed call; another try is allowed while the reservation has a call."""
        self._calls += 1
        units = _UNITS if self._charge(error) else ("calls",)
        reservation.in_flight = False
        for newest in reversed(self._open):
            if not self._find_excess(self._held, self._guessed_prompt, units):
                return
            self.cut = self.explain(0)
            self._release(newest, newest.calls - newest.in_flight)

    def settle(self, reservation: Reservation) -> None:
        """End the reservation of an attempt."""
        self._release(reservation, reservation.calls)
        self._open.pop(reservation, None)

    def seconds_left(self, now: float) -> float | None:
        """Seconds that this command may still make calls; None if there is no limit."""
        minutes = self._config.minutes
        return None if minutes is None else self._begun + 60 * minutes - now

    def explain(self, calls: int) -> EarlyEnd:
        """Say which budget has no room for so many calls, and how to continue."""
        guess = self._guessed_prompt
        unit = self._find_excess(self._held + calls, guess) or "dollars"
        bound = getattr(self._config, unit) or 0.0
        spent = round(
            self._forecast(self._held, guess)[unit], 4 if unit == "dollars" else 0
        )
        rest = bound - spent
        but = f" but for {rest:,.10g}, too little to go on" if rest > 0 else ""
        more = 2 * max(bound, round(spent, 2))
        option = f"--set {self._section}.budget.{unit}={more:.10g}"
        notes = []
        if unit != "calls" and self._estimated:
            what = "the tokens are" if unit == "tokens" else "the cost is"
            notes.append(f" ({what} {describe_estimated(self._estimated)})")
        if unit == "dollars" and self._unpriced:
            replies = count(self._unpriced, "reply", "replies")
            notes.append(f" (not counting {replies} of unknown cost)")
        return EarlyEnd(
            f"the budget of {bound:,.10g} {unit} is spent{but}; to go on, raise it: {option}"
            f"{''.join(notes)}",
            option,
        )

    @contextmanager
    def keep_minutes(self, stop: Stop, now: float) -> Iterator[None]:
        """End the run when its minutes are over."""
        left = self.seconds_left(now)
        if left is None:
            yield
            return
        why = (
            f"the budget of {self._config.minutes:g} minutes a command is spent "
            f"({self._section}.budget.minutes); the same command goes on"
        )
        timer = asyncio.get_running_loop().call_later(left, stop.end, "budget", why)
        try:
            yield
        finally:
            timer.cancel()

    def _charge(self, call: ChatReply | EngineError) -> bool:
        """Count the tokens of a reply or a failed try; return whether there are any."""
        tokens_in, tokens_out = call.prompt_tokens, call.completion_tokens
        self._prompt_tokens += tokens_in
        self._completion_tokens += tokens_out
        self._tokens += tokens_in + tokens_out
        self._estimated += call.estimated
        if self._price is not None:
            self._dollars += cost(self._price, tokens_in, tokens_out)
        return tokens_in + tokens_out > 0

    def _release(self, reservation: Reservation, calls: int) -> None:
        reservation.calls -= calls
        self._held -= calls

    def _find_excess(
        self, calls: int, prompt_tokens: float, units: Sequence[str] = _UNITS
    ) -> str:
        """Find the first unit whose budget is exceeded by so many more calls, or ""."""
        forecast = self._forecast(calls, prompt_tokens)
        for unit in units:
            bound = getattr(self._config, unit)
            if bound is not None and forecast[unit] > bound:
                return unit
        return ""

    def _forecast(self, calls: int, prompt_tokens: float) -> dict[str, float]:
        """Forecast what is spent after so many more calls, by a guess before any reply."""
        if self._replies:
            prompt = calls * self._prompt_tokens / self._replies
            completion = calls * (self._completion_tokens / self._replies)
        else:
            prompt, completion = calls * prompt_tokens, calls * float(FIRST_COMPLETION)
        dollars = 0.0 if self._price is None else cost(self._price, prompt, completion)
        return {
            "calls": self._calls + calls,
            "tokens": self._tokens + prompt + completion,
            "dollars": self._dollars + dollars,
        }
