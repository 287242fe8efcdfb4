"""Asking through the journal: no reply is asked for twice, and each is on disk before it counts."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random

from toolbank.journal import Failure, Journal
from toolbank.llm.chat import ChatReply, ChatRequest, Engine, EngineError
from toolbank.llm.config import EngineConfig
from toolbank.llm.control.counts import AskCounts
from toolbank.llm.control.stop import Stop

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 30.0
# A server that says to wait longer than this is out of reach for now.
_LONGEST_ASKED_WAIT = 120.0


@dataclass(frozen=True)
class Asked:
    """A reply, and its key in the journal."""

    reply: ChatReply
    key: str


class Asker:
    """Asks one engine for one stage of a run, within its settings.

    `counts` is what the calls came to; `stop` ends the run early.
    """

    def __init__(self, engine: Engine, journal: Journal, config: EngineConfig) -> None:
        self.counts = AskCounts()
        self.stop = Stop()
        self._engine = engine
        self._journal = journal
        self._config = config

    async def ask(self, request: ChatRequest) -> Asked:
        """The journal's reply to this request, or else the engine's, once it is in the journal.

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
        try:
            reply = await _answer(
                self._engine, request, self._config.retries, Random(key), self.counts
            )
        except EngineError as error:
            self.counts.failures[error.reason] += 1
            failure = Failure(
                key, request.attempt, request.stage, error.reason, str(error)
            )
            await self._journal.put_failure(failure)
            raise
        await self._journal.put(key, self._engine.identity, request, reply)
        self.counts.asked += 1
        self.counts.prompt_tokens += reply.prompt_tokens
        self.counts.completion_tokens += reply.completion_tokens
        return Asked(reply, key)


async def _answer(
    engine: Engine,
    request: ChatRequest,
    retries: int,
    random: Random,
    counts: AskCounts,
) -> ChatReply:
    tries = 0
    while True:
        try:
            return await engine.answer(request)
        except EngineError as error:
            wait = _wait(tries, error.retry_after, random)
            if not error.retryable or tries >= retries or wait is None:
                raise
            counts.retries[error.reason] += 1
        tries += 1
        await asyncio.sleep(wait)


def _wait(tries: int, asked: float | None, random: Random) -> float | None:
    """Seconds until the next try, or None where the server asks for too long a wait."""
    wait: float = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(tries, 16))
    wait *= 1 - random.random() / 2
    if asked is None:
        return wait
    return None if asked > _LONGEST_ASKED_WAIT else asked + wait / 2
