"""Calls and tokens a minute."""

from __future__ import annotations

from toolbank.chat.chat import ChatReply, ChatRequest
from toolbank.llm.config import EngineConfig
from toolbank.llm.tokens import FIRST_COMPLETION, estimate_prompt

_WEIGHT_OF_NEW = 0.05


class TokenBucket:
    """So much a minute, evenly: no more than a second's worth is saved up.

    What costs more than the bucket can hold goes when it is full, and leaves it in debt.
    """

    def __init__(self, per_minute: float, now: float) -> None:
        self._rate = per_minute / 60
        self._most = max(1.0, self._rate)
        self._level = self._most
        self._at = now

    def delay(self, cost: float, now: float) -> float:
        """Seconds until so much may be taken."""
        self._fill(now)
        return max(0.0, min(cost, self._most) - self._level) / self._rate

    def take(self, cost: float, now: float) -> None:
        """Take so much, or give back what is negative."""
        self._fill(now)
        self._level = min(self._most, self._level - cost)

    def _fill(self, now: float) -> None:
        passed = max(0.0, now - self._at)
        self._level = min(self._most, self._level + passed * self._rate)
        self._at = now


class RateLimiter:
    """The calls and tokens a minute that a configuration allows.

    A call's tokens are estimated before it, by the prompt's characters and the mean of the
    completions so far, and corrected by what the reply says.
    """

    def __init__(self, config: EngineConfig, now: float) -> None:
        self._calls = TokenBucket(config.rpm, now) if config.rpm else None
        self._tokens = TokenBucket(config.tpm, now) if config.tpm else None
        self._completion = FIRST_COMPLETION

    def estimate(self, request: ChatRequest) -> float:
        """Tokens that a call may cost; 0 where nobody counts them."""
        if self._tokens is None:
            return 0.0
        return estimate_prompt(request) + self._completion

    def delay(self, tokens: float, now: float) -> float:
        """Seconds until a call of so many tokens may be made."""
        delay = self._calls.delay(1, now) if self._calls else 0.0
        return max(delay, self._tokens.delay(tokens, now)) if self._tokens else delay

    def take(self, tokens: float, now: float) -> None:
        """Note that a call of so many tokens is made."""
        if self._calls:
            self._calls.take(1, now)
        if self._tokens:
            self._tokens.take(tokens, now)

    def correct(self, estimate: float, reply: ChatReply, now: float) -> None:
        """Note what a call cost in truth, where the endpoint says it."""
        cost = reply.prompt_tokens + reply.completion_tokens
        if self._tokens and cost:
            self._tokens.take(cost - estimate, now)
            new = reply.completion_tokens - self._completion
            self._completion += _WEIGHT_OF_NEW * new
