"""What the calls of a run came to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from toolbank.llm.accounts import describe_estimated
from toolbank.system.numbers import count

if TYPE_CHECKING:
    from toolbank.chat.chat import ChatReply, EngineError


@dataclass
class CallCounts:
    """What the calls of a run came to. `retries` are counted by the reason of the failure.

    Of `estimated` replies and failed tries, the endpoint did not report the tokens.
    """

    asked: int = 0
    from_journal: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: int = 0
    retries: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)

    def add(self, reply: ChatReply) -> None:
        """Count a reply that was asked for."""
        self.asked += 1
        self.charge(reply)

    def charge(self, call: ChatReply | EngineError) -> None:
        """Count the tokens of a reply, or of a failed try that was charged for."""
        self.prompt_tokens += call.prompt_tokens
        self.completion_tokens += call.completion_tokens
        self.estimated += call.estimated

    def summary(self) -> str:
        """The counts in a line.

        Such as "27 replies asked for (41,210 tokens in, 9,300 out; 3 retries: http-429 2,
        timeout 1), 12 from the journal".
        """
        details = []
        if self.prompt_tokens or self.completion_tokens:
            estimated = describe_estimated(self.estimated)
            details.append(
                f"{self.prompt_tokens:,} tokens in, {self.completion_tokens:,} out"
                f"{estimated and ', ' + estimated}"
            )
        if self.retries:
            details.append(_describe(self.retries, "retry", "retries"))
        if self.failures:
            details.append(_describe(self.failures, "failed call", "failed calls"))
        asked = count(self.asked, "reply", "replies")
        particulars = f" ({'; '.join(details)})" if details else ""
        return f"{asked} asked for{particulars}, {self.from_journal:,} from the journal"


def _describe(reasons: Counter[str], one: str, many: str) -> str:
    """Such as "3 retries: http-429 2, timeout 1", the most common reason first."""
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    listed = ", ".join(f"{reason} {number:,}" for reason, number in ordered)
    return f"{count(reasons.total(), one, many)}: {listed}"
