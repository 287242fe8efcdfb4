"""The budget of a stage: calls, tokens, dollars and minutes."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolbank.llm.accounts import (
    FIRST_COMPLETION,
    cost,
    cost_of,
    describe_estimated,
    find_prices,
    own_usage,
    resolve_price,
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
        self._price = resolve_price(config)
        self._begun = begun
        used, price_of = own_usage(usage, config), find_prices(config)
        self._estimated = sum(one.estimated for one in used)
        costs = [(cost_of(one, price_of(one.identity)), one.replies) for one in used]
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
        is_guess = self._counts_tokens and not self._replies
        if is_guess and len(self._open) >= _MOST_GUESSED:
            return None
        is_free = is_first and not self._tokens
        if not self._has_room(calls, prompt_tokens, is_free=is_free):
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

    def fail(self, reservation: Reservation, error: EngineError | None = None) -> None:
        """Count a failed call; another try is allowed while the reservation has a call."""
        self._calls += 1
        is_charged = error is not None and self._charge(error)
        reservation.in_flight = False
        for youngest in reversed(self._open):
            if self._calls + self._held <= (self._config.calls or math.inf) and not (
                is_charged and self._is_overspent()
            ):
                return
            self.cut = self.explain(0)
            self._release(youngest, youngest.calls - youngest.in_flight)

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
        config = self._config
        guess = self._guessed_prompt
        held_tokens, held_dollars = self._estimate(self._held, guess)
        tokens = self._tokens + held_tokens
        calls_spent = self._calls + self._held
        if config.calls is not None and calls_spent + calls > config.calls:
            return self._describe("calls", config.calls, calls_spent)
        estimated = describe_estimated(self._estimated)
        if config.tokens is not None and (
            tokens + self._estimate(calls, guess)[0] > config.tokens
        ):
            end = self._describe("tokens", config.tokens, round(tokens))
            return _add_note(end, estimated and f"the tokens are {estimated}")
        spent = round(self._dollars + held_dollars, 4)
        end = self._describe("dollars", config.dollars or 0.0, spent)
        end = _add_note(end, estimated and f"the cost is {estimated}")
        replies = count(self._unpriced, "reply", "replies")
        unknown = f"not counting {replies} of unknown cost" if self._unpriced else ""
        return _add_note(end, unknown)

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
        timer = asyncio.get_running_loop().call_later(left, stop.ask, "budget", why)
        try:
            yield
        finally:
            timer.cancel()

    @property
    def _counts_tokens(self) -> bool:
        return self._config.tokens is not None or self._config.dollars is not None

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

    def _is_overspent(self) -> bool:
        """Whether the tokens or dollars spent and reserved are too many."""
        tokens, dollars = self._estimate(self._held, self._guessed_prompt)
        return self._tokens + tokens > (self._config.tokens or math.inf) or (
            self._dollars + dollars > (self._config.dollars or math.inf)
        )

    def _release(self, reservation: Reservation, calls: int) -> None:
        reservation.calls -= calls
        self._held -= calls

    def _has_room(self, calls: int, prompt_tokens: float, *, is_free: bool) -> bool:
        """Whether there is room for so many more calls."""
        config, held = self._config, self._held + calls
        if config.calls is not None and self._calls + held > config.calls:
            return False
        if is_free or not self._counts_tokens:
            return True
        tokens, dollars = self._estimate(held, prompt_tokens)
        return (config.tokens is None or self._tokens + tokens <= config.tokens) and (
            config.dollars is None or self._dollars + dollars <= config.dollars
        )

    def _estimate(self, calls: int, guessed_prompt: float) -> tuple[float, float]:
        """Estimate the tokens and dollars of so many calls, by a guess before any reply."""
        if self._replies:
            prompt = calls * self._prompt_tokens / self._replies
            completion = calls * (self._completion_tokens / self._replies)
        else:
            prompt, completion = calls * guessed_prompt, calls * float(FIRST_COMPLETION)
        dollars = 0.0 if self._price is None else cost(self._price, prompt, completion)
        return prompt + completion, dollars

    def _describe(self, unit: str, bound: float, spent: float) -> EarlyEnd:
        left = bound - spent
        rest = f" but for {left:,.10g}, too little to go on" if left > 0 else ""
        more = 2 * max(bound, round(spent, 2))
        option = f"--set {self._section}.budget.{unit}={more:.10g}"
        return EarlyEnd(
            f"the budget of {bound:,.10g} {unit} is spent{rest}; to go on, raise it: {option}",
            option,
        )


def _add_note(end: EarlyEnd, note: str) -> EarlyEnd:
    return end._replace(message=f"{end.message} ({note})") if note else end
