"""Asking through the journal: no reply is asked for twice, and each is on disk before it counts."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from toolbank.journal import Failure, Journal
from toolbank.llm.chat import ChatReply, ChatRequest, Engine, EngineError

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 30.0
# A server that says to wait longer than this is out of reach for now.
_LONGEST_ASKED_WAIT = 120.0


@dataclass
class AskCounts:
    """What the calls of a run came to. `retries` are counted by the reason of the failure."""

    asked: int = 0
    from_journal: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    retries: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)

    def summary(self) -> str:
        """The counts in a line.

        Such as "27 replies asked for (41,210 tokens in, 9,300 out; 3 retries: http-429 2,
        timeout 1), 12 from the journal".
        """
        details = []
        if self.prompt_tokens or self.completion_tokens:
            details.append(
                f"{self.prompt_tokens:,} tokens in, {self.completion_tokens:,} out"
            )
        if self.retries:
            details.append(_told(self.retries, "retry", "retries"))
        if self.failures:
            details.append(_told(self.failures, "failed call", "failed calls"))
        asked = "1 reply" if self.asked == 1 else f"{self.asked:,} replies"
        particulars = f" ({'; '.join(details)})" if details else ""
        return f"{asked} asked for{particulars}, {self.from_journal:,} from the journal"


async def ask(
    engine: Engine,
    request: ChatRequest,
    journal: Journal,
    *,
    retries: int,
    counts: AskCounts | None = None,
) -> ChatReply:
    """The journal's reply to this request, or else the engine's, once it is in the journal.

    A call that may do better later is tried `retries` times more, after 0.5 s, 1 s, 2 s ... (at
    most 30 s, each shortened at random by up to a half) or after the time that the server asked for.

    Raises:
        EngineError: the call failed for good; the failure is in the journal.
        ToolbankError: the journal can't be written.
    """
    counts = counts if counts is not None else AskCounts()
    key = request.key(engine.identity)
    known = journal.get(key)
    if known is not None:
        counts.from_journal += 1
        return known
    try:
        reply = await _answer(engine, request, retries, Random(key), counts)
    except EngineError as error:
        counts.failures[error.reason] += 1
        failure = Failure(key, request.attempt, request.stage, error.reason, str(error))
        await journal.put_failure(failure)
        raise
    await journal.put(key, engine.identity, request, reply)
    counts.asked += 1
    counts.prompt_tokens += reply.prompt_tokens
    counts.completion_tokens += reply.completion_tokens
    return reply


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


def _told(reasons: Counter[str], one: str, many: str) -> str:
    """Such as "3 retries: http-429 2, timeout 1", the most common reason first."""
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    listed = ", ".join(f"{reason} {count:,}" for reason, count in ordered)
    total = reasons.total()
    return f"{total:,} {one if total == 1 else many}: {listed}"


def _wait(tries: int, asked: float | None, random: Random) -> float | None:
    """Seconds until the next try, or None where the server asks for too long a wait."""
    wait: float = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(tries, 16))
    wait *= 1 - random.random() / 2
    if asked is None:
        return wait
    return None if asked > _LONGEST_ASKED_WAIT else asked + wait / 2
