"""What becomes of each attempt, and the bank that the attempts add up to."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

from toolbank.bank import Query

_EXAMPLES = 3
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Attempt:
    """How one attempt ended: a query that passed every check, or why there is none."""

    number: int
    outcome: Literal["candidate", "declined", "rejected", "failed"]
    reason: str = ""
    detail: str = ""
    query: Query | None = None
    leak_words: int = 0


@dataclass
class Fold:
    """Attempts folded in their order into a list of accepted queries.

    The result depends on the attempts alone, not on when each came in. Near-duplicates are
    judged here, against all that was accepted before. `examples` are the particulars of the
    first few attempts that ended for a reason.
    """

    wanted: int | None
    near_duplicate: float
    queries: list[Query] = field(default_factory=list)
    attempts: int = 0
    declined: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    leak_words: int = 0
    examples: dict[str, list[str]] = field(default_factory=dict)
    _waiting: dict[int, Attempt] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._seen = NearDuplicates(self.near_duplicate)

    @property
    def is_full(self) -> bool:
        """Whether the wanted number of queries is reached."""
        return self.wanted is not None and len(self.queries) >= self.wanted

    def add(self, attempt: Attempt) -> None:
        """Take an attempt in any order; it counts once all before it have come."""
        self._waiting[attempt.number] = attempt
        while not self.is_full and self.attempts in self._waiting:
            self._count(self._waiting.pop(self.attempts))
            self.attempts += 1

    def counts(self) -> dict[str, Any]:
        """Attempts = accepted + declined + rejected + failed, reason by reason."""
        return {
            "attempts": self.attempts,
            "accepted": len(self.queries),
            "declined": self.declined.total(),
            "rejected": dict(sorted(self.rejected.items())),
            "failed": dict(sorted(self.failed.items())),
            "leak_word": self.leak_words,
        }

    def _count(self, attempt: Attempt) -> None:
        if attempt.query is None:
            counter: Counter[str] = getattr(self, attempt.outcome)
            counter[attempt.reason] += 1
            told = self.examples.setdefault(attempt.reason or attempt.outcome, [])
            if attempt.detail and len(told) < _EXAMPLES:
                told.append(attempt.detail)
        elif self._seen.holds_like(attempt.query.query):
            self.rejected["near-duplicate"] += 1
        else:
            self._seen.add(attempt.query.query)
            self.queries.append(attempt.query)
            self.leak_words += attempt.leak_words > 0


class NearDuplicates:
    """Texts whose sets of word 3-grams overlap by more than a Jaccard threshold.

    MinHash finds the candidates and the exact overlap decides.
    """

    def __init__(self, threshold: float) -> None:
        from datasketch import MinHashLSH

        self._threshold = threshold
        # A missed candidate can't be mended, and a false one is checked.
        self._index = MinHashLSH(
            threshold=threshold * 0.9, num_perm=_PERMUTATIONS, weights=(0.05, 0.95)
        )
        self._texts: list[str] = []

    def holds_like(self, text: str) -> bool:
        """Whether a text like this one was added."""
        grams = _grams(text)
        return any(
            _jaccard(grams, _grams(self._texts[position])) >= self._threshold
            for position in self._index.query(_minhash(grams))
        )

    def add(self, text: str) -> None:
        """Remember a text."""
        self._index.insert(len(self._texts), _minhash(_grams(text)))
        self._texts.append(text)


_PERMUTATIONS = 128


def _minhash(grams: set[str]) -> Any:
    from datasketch import MinHash

    minhash = MinHash(num_perm=_PERMUTATIONS, seed=1)
    minhash.update_batch([gram.encode() for gram in sorted(grams)])
    return minhash


def _grams(text: str) -> set[str]:
    words = _WORD.findall(text.lower())
    return {" ".join(words[i : i + 3]) for i in range(max(1, len(words) - 2))}


def _jaccard(first: set[str], second: set[str]) -> float:
    return len(first & second) / len(first | second)
