"""Asking through the journal: no reply is asked for twice, and each is on disk before it counts."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from random import Random
from time import monotonic, strftime

from toolbank.chat.chat import (
    ChatReply,
    ChatRequest,
    Engine,
    EngineError,
    NotYet,
    RoundEngine,
)
from toolbank.journal import Failure, Journal
from toolbank.llm.config import EngineConfig
from toolbank.llm.control.budget import Budget
from toolbank.llm.control.counts import AskCounts
from toolbank.llm.control.gate import Gate
from toolbank.llm.control.limit import CallLimit
from toolbank.llm.control.outage import Outage
from toolbank.llm.control.rates import Rates
from toolbank.llm.control.stop import Stop, Stopped
from toolbank.system.errors import ToolbankError
from toolbank.system.terminal import tell

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 30.0
# A pause of so many seconds is told, so that nobody wonders.
_LONG_PAUSE = 10.0


@dataclass(frozen=True)
class Asked:
    """A reply, and its key in the journal."""

    reply: ChatReply
    key: str


class Asker:
    """Asks one engine for one stage of a run, within its settings.

    `counts` is what the calls came to; `stop` ends the run early; `limit` is how many calls may
    be in flight, and `gate` knows how many are. `place` says in messages who is asked.

    Raises:
        InputError: the file of prices can't be read, or lacks a model whose dollars are to be counted.
    """

    def __init__(
        self,
        engine: Engine,
        journal: Journal,
        config: EngineConfig,
        place: str = "",
    ) -> None:
        now = monotonic()
        self._place = place or engine.name
        self.counts = AskCounts()
        self.stop = Stop()
        self.limit = CallLimit(config.concurrency)
        self._engine = engine
        self._rounds = engine if isinstance(engine, RoundEngine) else None
        self._refused = ""
        self._has_counted = False
        self._journal = journal
        self._config = config
        self._rates = Rates(config, now)
        self._outage = Outage(config.max_outage)
        self._budget = Budget(config, journal.usage(), now)
        self.gate = Gate(self.limit, self._rates, self._outage, self._budget, self.stop)

    @property
    def dollars(self) -> float | None:
        """What this stage cost over the run's folder, or None where no price is known."""
        return self._budget.dollars

    @property
    def seconds_left(self) -> float | None:
        """Seconds of the budget of minutes, or None where there is none."""
        return self._budget.seconds_left(monotonic())

    def keep_minutes(self) -> AbstractContextManager[None]:
        """End the run when the minutes of the budget are over, whatever is waited for then."""
        return self._budget.keep_minutes(self.stop, monotonic())

    def stop_if_refused(self) -> None:
        """End the run where a spent budget has kept a request out of the next round."""
        if self._refused and not self.stop:
            self.stop.ask("budget", self._refused)

    def end_row(self, row: int) -> None:
        """Note that a row makes no further call: a budget holds nothing back for it any more."""
        self.gate.end_row(row)

    async def ask(self, request: ChatRequest) -> Asked:
        """The journal's reply to this request, or else the engine's, once it is in the journal.

        A call that may do better later is tried `retries` times more, after a random part of
        0.5 s, 1 s, 2 s ... at most 30 s (Brooker, "Exponential backoff and jitter", AWS, 2015:
        full jitter). Tries that an outage made fail don't count. What the endpoint asks one to
        wait, all wait.

        Raises:
            EngineError: the call failed for good; the failure is in the journal.
            NotYet: the engine gives the reply with a later round.
            Stopped: the run is ending, and the call was not made.
            ToolbankError: the journal can't be written.
        """
        key = request.key(self._engine.identity)
        known = self._journal.get(key)
        if known is not None:
            self.counts.from_journal += 1
            return Asked(known, key)
        if self._rounds is None:
            reply = await self._call(key, request)
        else:
            reply = await self._take_up(self._rounds, key, request)
        await self._journal.put(key, self._engine.identity, request, reply)
        self.counts.asked += 1
        self.counts.prompt_tokens += reply.prompt_tokens
        self.counts.completion_tokens += reply.completion_tokens
        return Asked(reply, key)

    async def _take_up(
        self, engine: RoundEngine, key: str, request: ChatRequest
    ) -> ChatReply:
        """Take the reply of a round, which costs nothing more, or put the request into the next.

        A spent budget keeps new requests out of the round. Other attempts may have replies yet;
        only a row's first call that was never asked ends the run, as none after it was.
        """
        asked = engine.asked()
        if not self._has_counted:
            self._has_counted = True
            self._count(asked, request)
        if engine.is_new(key):
            why = self._budget.why_spent(monotonic())
            if why and not self.stop:
                self._refused = why
                if request.stage == "write" and key not in asked:
                    self.stop.ask("budget", why)
            if why or self.stop:
                raise Stopped
            self._budget.promise(key, request.messages)
        try:
            reply = await self._answer(request, self._config.total_timeout)
        except EngineError as error:
            self.counts.failures[error.reason] += 1
            if self._knows(key, request, error):
                self._budget.withdraw(key)
            else:
                self._budget.settle(key, None)
                await self._keep(key, request, error, is_final=True)
            if error.fatal:
                self.stop.fail(error)
            raise
        self._budget.settle(key, reply)
        return reply

    def _count(self, asked: Collection[str], request: ChatRequest) -> None:
        """Promise what earlier commands asked for and have no replies to, as if all were alike."""
        for key in asked if self._budget.is_counted else ():
            if self._journal.get(key) is None:
                self._budget.promise(key, request.messages)

    def _knows(self, key: str, request: ChatRequest, error: EngineError) -> bool:
        """Whether an earlier command was told the same, by the same files."""
        return any(
            failure.key == key and failure.final and failure.message == str(error)
            for failure in self._journal.failures(request.attempt)
        )

    async def close(self) -> None:
        """Let go of the engine once all that came is on disk.

        Those who asked may be gone after an interrupt, while replies still wait to be written.
        """
        await self._journal.flush()
        await self._engine.close()

    async def _call(self, key: str, request: ChatRequest) -> ChatReply:
        """Try until there is a reply or no more hope."""
        config, outage = self._config, self._outage
        tokens = self._rates.estimate(request.messages)
        tries, spent = 0, 0.0
        random: Random | None = None
        while True:
            is_probe = await self.gate.enter(request, tokens)
            outages, begun = outage.number, monotonic()
            try:
                seconds = config.total_timeout - spent
                reply = await self._try(request, tokens, seconds, is_probe=is_probe)
            except EngineError as error:
                failed = error
                self._budget.end(request, None)
            else:
                self._budget.end(request, reply)
                return reply
            finally:
                self.gate.leave()
            if outage.is_down or outage.number != outages:
                tries, spent, wait = 0, 0.0, 0.0
            else:
                random = random or Random(key)
                wait = random.uniform(0, min(_LONGEST_WAIT, _FIRST_WAIT * 2**tries))
                tries += 1
                spent += monotonic() - begun + wait
            is_final = (
                not failed.retryable
                or tries > config.retries
                or spent >= config.total_timeout
            )
            await self._keep(key, request, failed, is_final)
            if is_final:
                self.counts.failures[failed.reason] += 1
                self.end_row(request.attempt)
                raise failed
            self.counts.retries[failed.reason] += 1
            await self.gate.sleep(wait)

    async def _try(
        self, request: ChatRequest, tokens: float, seconds: float, *, is_probe: bool
    ) -> ChatReply:
        """Call once, and tell everybody whom the outcome concerns."""
        begun = monotonic()
        try:
            reply = await self._answer(request, seconds)
        except EngineError as error:
            self._note_failure(error)
            raise
        else:
            self._note_reply(reply, tokens, begun)
            return reply
        finally:
            if is_probe:
                self._outage.end_probe(monotonic())

    async def _answer(self, request: ChatRequest, seconds: float) -> ChatReply:
        config = self._config
        setting = "timeout" if config.timeout <= seconds else "total_timeout"
        try:
            async with asyncio.timeout(min(config.timeout, seconds)):
                return await self._engine.answer(request)
        except (ToolbankError, NotYet):
            raise
        except TimeoutError as error:
            raise EngineError(
                f"{self._where()}: no reply within {getattr(config, setting):g} s (the "
                f"setting `{setting}`).",
                reason="timeout",
                retryable=True,
            ) from error
        except Exception as error:
            raise EngineError(
                f"{self._engine.name}: {type(error).__name__}: {error}",
                reason="engine-error",
            ) from error

    def _where(self) -> str:
        """Who was asked, for messages: the endpoint, or an engine that has none."""
        return f"{self._place} ({self._engine.model})"

    def _note_reply(self, reply: ChatReply, tokens: float, begun: float) -> None:
        now = monotonic()
        self._note_life()
        self.limit.answer(reply.latency or now - begun, self.gate.in_flight)
        self._rates.correct(tokens, reply, now)
        self._budget.take(reply)
        if reply.pause:
            self._pause(reply.pause, "")

    def _note_failure(self, error: EngineError) -> None:
        now = monotonic()
        if not error.retryable:
            self._note_life()
        elif not self._outage.is_down:
            self.limit.fail(error.reason, self.gate.in_flight)
            if self._outage.fail(self.limit.now, now):
                tell(
                    f"the endpoint is down, it seems, at {strftime('%H:%M:%S')}: {error} All "
                    "calls wait, and one at a time is tried, for at most "
                    f"{self._outage.longest:g} s."
                )
        if error.fatal:
            self.stop.fail(error)
        elif self._outage.is_too_long(now):
            self.stop.fail(
                ToolbankError(
                    f"{str(error).partition('. ')[0].rstrip('.')}. No call was answered for "
                    f"{now - self._outage.since:.0f} s, so the run stops. The replies that came "
                    "are kept; run the same command again when the endpoint answers. How long to "
                    f"wait for it is the setting `{self._config.section}.max_outage`, where any "
                    "call was answered before."
                )
            )
        elif error.retry_after:
            self._pause(error.retry_after, f" ({error.reason})")

    def _note_life(self) -> None:
        """An endpoint that refuses is there, too."""
        if self._outage.answer():
            self.limit.restart()
            tell(f"the endpoint answers again, at {strftime('%H:%M:%S')}; going on.")

    def _pause(self, seconds: float, why: str) -> None:
        told = f"the endpoint asks to wait {seconds:.0f} s{why}"
        if seconds > self._config.max_outage:
            self.stop.fail(
                ToolbankError(
                    f"{told}, which is longer than {self._config.max_outage:g} s (the setting "
                    f"`{self._config.section}.max_outage`). The replies that came are kept; run the same command again "
                    "then."
                )
            )
        elif self.gate.pause(seconds) and seconds >= _LONG_PAUSE:
            tell(f"{told}; all calls wait.")

    async def _keep(
        self, key: str, request: ChatRequest, error: EngineError, is_final: bool
    ) -> None:
        await self._journal.put_failure(
            Failure(
                key,
                request.attempt,
                request.stage,
                error.reason,
                str(error),
                final=is_final,
                identity=self._engine.identity,
            )
        )
