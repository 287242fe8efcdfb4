"""How an attempt ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from toolbank.bank.records import Query

Outcome = Literal["accepted", "declined", "rejected", "failed"]


@dataclass(frozen=True)
class Attempt:
    """How one attempt ended: a query that passed every check, or why there is none.

    `requests` are the keys of its calls in the journal.
    """

    number: int
    outcome: Outcome
    reason: str = ""
    detail: str = ""
    query: Query | None = None
    leak_words: int = 0
    requests: tuple[str, ...] = ()

    @property
    def has_asked_polish(self) -> bool:
        """Whether its draft passed, so that it ended with the polish."""
        return len(self.requests) > 1
