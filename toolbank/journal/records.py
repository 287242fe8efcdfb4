"""What a journal gives out."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolbank.chat.chat import ChatReply


@dataclass(frozen=True)
class Failure:
    """A try that gave no reply. `final`: the call was given up in that run of the command."""

    key: str
    attempt: int
    step: str
    reason: str
    message: str
    final: bool
    identity: str


@dataclass(frozen=True)
class Entry:
    """A journaled exchange."""

    key: str
    attempt: int
    step: str
    identity: str
    messages: list[dict[str, str]]
    reply: ChatReply


@dataclass(frozen=True)
class StepUsage:
    """What the calls of one step to one model came to, over all runs of the command.

    The tokens are those of the replies and of failed tries that were charged for; of `estimated`
    replies and tries the endpoint did not report them.
    `failed_tries` is by reason. `latency` has the keys p50, p90, p99 (nearest rank) and max, in
    seconds, over the replies whose latency was measured; it is empty where none was.
    """

    step: str
    identity: str
    replies: int
    prompt_tokens: int
    completion_tokens: int
    failed_tries: dict[str, int] = field(default_factory=dict)
    latency: dict[str, float] = field(default_factory=dict)
    estimated: int = 0
