"""What a stage may spend."""

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

# So many attempts begin before the first reply has told what a call costs.
_MOST_GUESSED = 8


@dataclass(eq=False)
class Reservation:
    """Calls that are held back for an attempt, the one in flight included."""

    calls: int
    in_flight: bool = False


class Budget:
    """Calls, tokens and dollars over the run's folder, and minutes of this command.

    An attempt reserves all its calls before the first, and settles at its end, so that none that
    was begun is cut short. A call that is reserved is taken to cost the mean of those before it.
    Tokens that the endpoint does not report count by an estimate. A failed try is a call, and costs
    the tokens that it was charged for: where such use up what is held back, the youngest attempts
    lose their calls, so that what is missing in the end is at the end; `cut` is why, None where
    none did.

    Raises:
        InputError: dollars are to be counted, and the file of prices lacks the model.
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
        # Of one, as long as no reply has told what they are.
        self._guessed_prompt = 0.0
        self.cut: EarlyEnd | None = None
        self._open: dict[Reservation, None] = {}
        self._held = 0
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
    def is_estimated(self) -> bool:
        """Whether any of the tokens, and so of the dollars, is an estimate."""
        return self._estimated > 0

    @property
    def mean_completion(self) -> float:
        """Tokens of a completion: the mean of those that came, or a guess before the first."""
        if not self._replies:
            return FIRST_COMPLETION
        return self._completion_tokens / self._replies

    @property
    def is_open(self) -> bool:
        """Whether anything is held back, so that there may be more room later."""
        return bool(self._open)

    def reserve(self, calls: int, prompt_tokens: float) -> Reservation | None:
        """Hold so many calls back, or give None where there is no room for them.

        `prompt_tokens` is the size of the first prompt: what calls are taken to cost before any
        reply came. Of the very first call nobody knows what it costs, until it was made.
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
        """Hold back calls that are to be made, or were asked for, whatever room there is."""
        reservation = Reservation(calls)
        self._open[reservation] = None
        self._held += calls
        return reservation

    def answer(self, reservation: Reservation, reply: ChatReply) -> None:
        """Note a call that was answered, and what it cost."""
        self._replies += 1
        self._calls += 1
        self._charge(reply)
        reservation.in_flight = False
        self._release(reservation, 1)

    def fail(self, reservation: Reservation, error: EngineError | None = None) -> None:
        """Note a call that failed, and what the error says that it was charged for.

        Who made it may try again while it has a call reserved.
        """
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
        """Hold nothing back any more for an attempt that makes no further call."""
        self._release(reservation, reservation.calls)
        self._open.pop(reservation, None)

    def seconds_left(self, now: float) -> float | None:
        """Seconds that this command may still make calls, or None where nothing says so."""
        minutes = self._config.minutes
        return None if minutes is None else self._begun + 60 * minutes - now

    def explain(self, calls: int) -> EarlyEnd:
        """Which budget has no room for so many calls, and how to go on."""
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
        """Ask for a stop when the minutes are over, whatever is waited for then."""
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
        """Count the tokens of a reply or of a failed try; gives whether there are any."""
        tokens_in, tokens_out = call.prompt_tokens, call.completion_tokens
        self._prompt_tokens += tokens_in
        self._completion_tokens += tokens_out
        self._tokens += tokens_in + tokens_out
        self._estimated += call.estimated
        if self._price is not None:
            self._dollars += cost(self._price, tokens_in, tokens_out)
        return tokens_in + tokens_out > 0

    def _is_overspent(self) -> bool:
        """Whether the tokens spent, and those of the calls that are held back, are too many."""
        tokens, dollars = self._estimate(self._held, self._guessed_prompt)
        return self._tokens + tokens > (self._config.tokens or math.inf) or (
            self._dollars + dollars > (self._config.dollars or math.inf)
        )

    def _release(self, reservation: Reservation, calls: int) -> None:
        reservation.calls -= calls
        self._held -= calls

    def _has_room(self, calls: int, prompt_tokens: float, *, is_free: bool) -> bool:
        """Whether there is room for so many calls beside those that are held."""
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
        """Tokens and dollars that so many calls will cost; before any reply, by a guess."""
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
    """The same end, with a note behind its message if there is one."""
    return end._replace(message=f"{end.message} ({note})") if note else end
