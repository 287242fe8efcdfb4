"""Make one call: retry it, and adapt to the load that the endpoint can handle."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from time import monotonic, strftime
from typing import TYPE_CHECKING, Any

from toolbank.llm.admission import (
    FIRST_LIMIT,
    RATE_LIMITED,
    Admission,
    CircuitBreaker,
    ConcurrencyLimit,
    RateLimiter,
)
from toolbank.llm.chat import (
    ChatReply,
    ChatRequest,
    Engine,
    EngineError,
    count_tokens,
    estimate_tokens,
)
from toolbank.llm.config import hide_in_reply
from toolbank.llm.journal import Journal
from toolbank.llm.stop import Stop, StoppedError
from toolbank.system import aio
from toolbank.system.errors import ToolbankError
from toolbank.system.net import is_private
from toolbank.system.numbers import count
from toolbank.system.secrets import hide
from toolbank.system.terminal import print_above_bars

if TYPE_CHECKING:
    from toolbank.llm.accounts import CallCounts
    from toolbank.llm.budget import Budget, Reservation
    from toolbank.llm.config import EngineConfig
    from toolbank.llm.engines.kind import EngineKind

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 30.0
SILENT_S = 30.0
"""A longer time without a reply, in seconds, is reported."""
# A message announces a pause of at least so many seconds, and then one of twice the length.
_LONG_PAUSE = 10.0


async def ask_engine(
    engine: Engine, request: ChatRequest, secrets: Sequence[str]
) -> ChatReply:
    """Answer one request, and hide the values that the engine sends in its reply or error.

    Raises:
        ToolbankError: there is no answer.
        TimeoutError: the engine's own time limit has passed.
    """
    try:
        reply: object = await engine.answer(request)
        if not isinstance(reply, ChatReply):
            raise TypeError(f"returned {type(reply).__name__!r}, not a ChatReply")
        return hide_in_reply(reply, secrets)
    except ToolbankError as error:
        error.args = (hide(str(error), secrets),)
        raise
    except TimeoutError:
        raise
    except Exception as error:
        raise EngineError(
            hide(f"{engine.name}: {type(error).__name__}: {error}", secrets),
            reason="engine-error",
        ) from error


@dataclass(kw_only=True)
class Caller:
    """Calls an engine, and learns from each call what load the endpoint can handle.

    `limit` is how many calls may be in flight, and `admission` has how many are. If the engine asks
    a model and does not report the tokens of replies, they are estimated.
    """

    engine: Engine
    journal: Journal
    config: EngineConfig
    kind: EngineKind[Any]
    budget: Budget
    counts: CallCounts
    stop: Stop

    def __post_init__(self) -> None:
        """Create the limits."""
        self._secrets = self.kind.find_secrets(self.config)
        # A server on this machine or nearby may have one slot, and queue other calls.
        first = 1 if is_private(self.config.base_url) else FIRST_LIMIT
        self.limit = ConcurrencyLimit(self.config.concurrency, first)
        self._starting = asyncio.Lock()
        self._has_started = False
        self._in_flight_since: dict[object, float] = {}
        self._rates = RateLimiter(self.config, monotonic())
        self._breaker = CircuitBreaker(self.config.max_outage)
        self._answered_at = monotonic()
        self._next_announced = _LONG_PAUSE
        self.admission = Admission(self.limit, self._rates, self._breaker, self.stop)

    async def call(
        self,
        key: str,
        request: ChatRequest,
        reservation: Reservation,
        *,
        has_begun: bool,
    ) -> ChatReply:
        """Call until there is a reply; write each failed try to the journal.

        A retryable call is tried `retries` times more, after a random part of 0.5 s, 1 s, 2 s ...
        at most 30 s (Brooker, "Exponential backoff and jitter", AWS, 2015: full jitter). Tries
        while the endpoint is down do not count, nor do those that it refuses by a rate limit. If it
        asks one call to wait, all wait.
        `has_begun`: the attempt has made a call before.

        Raises:
            EngineError: the call failed for good.
            StoppedError: the run is ending or the reservation is lost, and the call was not made,
                or not again.
            ToolbankError: the journal can't be written.
        """
        config, breaker = self.config, self._breaker
        tokens = self._rates.estimate(request)
        tries, refusals, spent = 0, 0, 0.0
        random: Random | None = None
        await self._find_slots()
        while True:
            is_probe = await self.admission.enter(tokens, has_begun=has_begun)
            if not reservation.calls:
                self.admission.leave(is_probe=is_probe)
                raise StoppedError
            has_begun = reservation.in_flight = True
            outages, begun = breaker.number, monotonic()
            self._in_flight_since[place := object()] = begun
            try:
                seconds = config.total_timeout - spent
                reply = await self._answer(request, seconds)
            except EngineError as error:
                failed = error
                self._note_failure(error)
                self.budget.fail(reservation, error)
                self.counts.charge(error)
            else:
                self._note_reply(reply, tokens, begun)
                self.budget.answer(reservation, reply)
                return reply
            finally:
                del self._in_flight_since[place]
                self.admission.leave(is_probe=is_probe)
            if breaker.is_open or breaker.number != outages:
                tries, refusals, spent, wait = 0, 0, 0.0, 0.0
            else:
                random = random or Random(key)
                longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** (tries + refusals))
                wait = random.uniform(0, longest)
                if failed.reason == RATE_LIMITED:
                    refusals += 1
                    wait = wait if failed.retry_after is None else 0.0
                else:
                    tries += 1
                spent += monotonic() - begun + wait
            is_final = (
                not failed.retryable
                or tries > config.retries
                or spent >= config.total_timeout
            )
            await self.journal.put_failure(
                key, self.engine.identity, request, failed, final=is_final
            )
            if is_final:
                self.counts.failures[failed.reason] += 1
                raise failed
            self.counts.retries[failed.reason] += 1
            await self.admission.sleep(wait)

    def describe_silence(self) -> str:
        """Describe how long calls in flight have had no reply; "" if not for long."""
        now = monotonic()
        begun = next(iter(self._in_flight_since.values()), now)
        silence = now - max(begun, self._answered_at)
        if silence < SILENT_S:
            return ""
        place, calls = self.kind.place(self.config), len(self._in_flight_since)
        return f"waiting for {place}: {count(calls, 'call')} in flight, no reply for {silence:.0f} s"

    async def _find_slots(self) -> None:
        """Start with as many calls in flight as the server answers at once, if it says so."""
        async with self._starting:
            if not self._has_started:
                self._has_started = True
                find = getattr(self.engine, "find_slots", None)
                if find and self.config.concurrency == "auto" and (n := await find()):
                    self.limit.start_with(n)

    async def _answer(self, request: ChatRequest, seconds: float) -> ChatReply:
        longest = self.config.timeout or self.kind.timeout
        setting = "timeout"
        if longest is not None and longest > seconds:
            longest, setting = seconds, "total_timeout"
        try:
            async with aio.time_limit(longest, seconds):
                reply = await ask_engine(self.engine, request, self._secrets)
        except EngineError as error:
            if error.completion_tokens and not error.prompt_tokens:
                error.prompt_tokens = estimate_tokens(request.prompt)
                error.estimated = True
            raise
        except TimeoutError as error:
            raise self._explain_timeout(request, setting, longest) from error
        if not self.kind.asks_model:
            return reply
        return count_tokens(reply, request.prompt, self.config.max_tokens)

    def _explain_timeout(
        self, request: ChatRequest, setting: str, seconds: float | None
    ) -> EngineError:
        """Make the error of a time-out; the model may have been charged for it."""
        error = EngineError(
            f"{self.kind.place(self.config)} ({self.engine.model}): no complete reply within "
            f"{getattr(self.config, setting) or seconds:g} s (the setting `{setting}`).",
            reason="timeout",
            retryable=True,
        )
        if self.kind.asks_model:
            error.prompt_tokens = estimate_tokens(request.prompt)
            error.completion_tokens = round(self.budget.mean_completion)
            error.estimated = True
        return error

    def _note_reply(self, reply: ChatReply, tokens: float, begun: float) -> None:
        now = self._answered_at = monotonic()
        self._note_life()
        self.admission.release()
        self.limit.answer(reply.latency or now - begun, self.admission.in_flight)
        self._rates.correct(tokens, reply, now)
        if reply.pause:
            self._pause(reply.pause, "")

    def _note_failure(self, error: EngineError) -> None:
        now, breaker = monotonic(), self._breaker
        if not error.retryable or error.reason == RATE_LIMITED:
            self._note_life()
        if error.reason == RATE_LIMITED:
            self.limit.fail(error.reason, self.admission.in_flight)
            self._note_rate_limit(error, now)
        elif error.retryable and not breaker.is_open:
            self.limit.fail(error.reason, self.admission.in_flight)
            if breaker.fail(self.limit.now, now):
                print_above_bars(
                    f"the endpoint is down since {strftime('%H:%M:%S')}: {error} All calls wait, "
                    f"and one at a time is tried, for at most {breaker.longest:g} s."
                )
        if error.fatal:
            self.stop.fail(error)
        elif breaker.is_too_long(now):
            self.stop.fail(
                ToolbankError(
                    f"{error}\nNo call was answered for {now - breaker.since:.0f} s, so the run "
                    "stops. The replies that came are kept; run the same command again when the "
                    "endpoint answers. To wait longer after a first reply, set "
                    f"`{self.config.section}.max_outage`."
                )
            )
        elif error.retry_after:
            self._pause(error.retry_after, f" ({error.reason})")

    def _note_rate_limit(self, error: EngineError, now: float) -> None:
        """End the run if rate limits have refused every call for too long."""
        silence = now - self._answered_at
        if silence >= self.config.max_outage:
            self.stop.fail(
                ToolbankError(
                    f"{error}\nRate limits refused all calls of {silence:.0f} s, so the run stops. "
                    "The replies that came are kept; run the same command again later. To wait "
                    f"longer, set `{self.config.section}.max_outage`."
                )
            )

    def _note_life(self) -> None:
        """Note a reply or a refusal, which show that the endpoint is up."""
        if self._breaker.answer():
            self.limit.restart()
            print_above_bars(
                f"the endpoint answers again since {strftime('%H:%M:%S')}; continuing."
            )

    def _pause(self, seconds: float, why: str) -> None:
        request = f"the endpoint asks to wait {seconds:.0f} s{why}"
        most = self.config.max_outage
        if seconds > most:
            self.stop.fail(
                ToolbankError(
                    f"{request}, which is longer than {most:g} s (the setting "
                    f"`{self.config.section}.max_outage`). The replies that came are kept; run "
                    "the same command again then."
                )
            )
        elif self.admission.pause(seconds) and seconds >= self._next_announced:
            self._next_announced = 2 * seconds
            print_above_bars(f"{request}; all calls wait.")
