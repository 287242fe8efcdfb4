"""Fold attempts into a bank in a fixed order, whatever the order in which they come."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from toolbank.bank.records import AttemptRecord, Query
from toolbank.llm.accounts import rank_reasons
from toolbank.llm.chat import Engine
from toolbank.requests.write.config import Quotas
from toolbank.requests.write.near_duplicates import DiskList, NearDuplicates
from toolbank.system.numbers import count

LossKind = Literal["declined", "rejected", "failed"]
AttemptEnding = Literal["accepted"] | LossKind

_EXAMPLES = 3
# About 20 MB of attempts, if the first of so many takes long.
_WINDOW = 5000
_SHOWN = 160
# The 95th percentile of the standard normal distribution.
_Z95 = 1.6448536269514722


class Losses:
    """Counts of texts that were not accepted, by how they ended and by reason.

    `examples` are the first few different details of each reason. `polished` counts those that got
    as far as the polish.
    """

    def __init__(self) -> None:
        self.of: dict[LossKind, Counter[str]] = {
            kind: Counter() for kind in get_args(LossKind)
        }
        self.examples: dict[str, list[str]] = {}
        self.polished: Counter[tuple[LossKind, str]] = Counter()

    def add(self, kind: LossKind, reason: str, detail: str) -> None:
        """Count one text."""
        self.of[kind][reason] += 1
        examples = self.examples.setdefault(reason or kind, [])
        if detail and detail not in examples and len(examples) < _EXAMPLES:
            examples.append(detail)

    def counts(self) -> dict[str, Any]:
        """The counts as JSON has them; of failed and rejected ones reason by reason."""
        return {
            "declined": self.of["declined"].total(),
            "rejected": dict(sorted(self.of["rejected"].items())),
            "failed": dict(sorted(self.of["failed"].items())),
        }

    def describe(self, *kinds: LossKind) -> str:
        """Such as "not-json 3 (1 in the polish), too-long 1"."""
        return ", ".join(text for _, text in self._rank(kinds))

    def list_reasons(self) -> Iterator[str]:
        """A line for each reason, with an example; failures come last."""
        parts: dict[str, tuple[LossKind, ...]] = {
            "": ("declined", "rejected"),
            "failed: ": ("failed",),
        }
        for prefix, kinds in parts.items():
            for reason, text in self._rank(kinds):
                example = " ".join(next(iter(self.examples[reason]), "").split())
                such = f", such as: {example[:_SHOWN]}" if example else ""
                yield f"{prefix}{text}{such}"

    def _rank(self, kinds: Iterable[LossKind]) -> Iterator[tuple[str, str]]:
        """Each reason with its description, the most frequent first."""
        counts: Counter[str] = Counter()
        polished: Counter[str] = Counter()
        for kind in kinds:
            for reason, number in self.of[kind].items():
                counts[reason or kind] += number
                polished[reason or kind] += self.polished[kind, reason]
        for reason, number in rank_reasons(counts):
            part = f" ({polished[reason]:,} in the polish)" if polished[reason] else ""
            yield reason, f"{reason} {number:,}{part}"


@dataclass(frozen=True)
class Attempt:
    """How one attempt ended, and its query if that passed every check.

    The record has the keys of its calls in the journal: the write, and the polish if the draft
    passed.
    """

    record: AttemptRecord
    query: Query | None = None
    leak_words: int = 0


@dataclass
class BankBuilder:
    """Take attempts in any order, and build the list of accepted queries in theirs.

    The result depends on the attempts alone, not on when each arrives. Near-duplicates of queries
    that were accepted before are rejected here. With `quotas`, an attempt whose number of tools has
    all its queries is skipped: it doesn't count, made or not. `queries` and `ended` (a row for each
    attempt that counts) are on disk. `accepted_of` and `waiting_of` count queries by their number
    of tools: those accepted, and those of attempts that don't count yet.

    Raises:
        ToolbankError: the folder for temporary files is full.
    """

    wanted: int | None
    near_duplicate: float
    quotas: Quotas | None = None
    queries: DiskList[Query] = field(default_factory=lambda: DiskList(Query))
    ended: DiskList[AttemptRecord] = field(
        default_factory=lambda: DiskList(AttemptRecord)
    )
    accepted_of: Counter[int] = field(default_factory=Counter)
    waiting_of: Counter[int] = field(default_factory=Counter)
    losses: Losses = field(default_factory=Losses)
    leak_words: int = 0
    _waiting: dict[int, Attempt] = field(default_factory=dict)
    _next: int = 0

    def __post_init__(self) -> None:
        self._seen = NearDuplicates(
            self.near_duplicate, lambda number: self.queries[number].query
        )

    @property
    def accepted(self) -> int:
        """How many queries are accepted."""
        return len(self.queries)

    @property
    def attempts(self) -> int:
        """How many attempts count."""
        return len(self.ended)

    @property
    def waiting_candidates(self) -> int:
        """How many queries there are of attempts that don't count yet."""
        return self.waiting_of.total()

    @property
    def is_full(self) -> bool:
        """Whether the wanted number of queries is reached."""
        return self.wanted is not None and self.accepted >= self.wanted

    def count_lacking(self) -> int:
        """Count the queries that are missing if all that wait are accepted."""
        if self.quotas is None:
            return (self.wanted or 0) - self.accepted - self.waiting_candidates
        return sum(
            max(0, wanted - self.accepted_of[number] - self.waiting_of[number])
            for number, wanted in self.quotas.wanted.items()
        )

    def has_room_for(self, number: int) -> bool:
        """Whether an attempt is close enough to the next one to wait in memory."""
        return number < self._next + _WINDOW

    def is_skipped(self, number: int) -> bool:
        """Whether an attempt won't count because its number of tools has all its queries."""
        if self.quotas is None:
            return False
        tools = self.quotas.number_of(number)
        return tools is not None and not self.quotas.has_room(
            tools, self.accepted_of[tools]
        )

    def accept(self, attempt: Attempt) -> None:
        """Take an attempt in any order; it counts once all before it have come."""
        self._waiting[attempt.record.attempt] = attempt
        if attempt.query is not None:
            self.waiting_of[len(attempt.query.tools)] += 1
        while not self.is_full:
            skipped = self.is_skipped(self._next)
            counted = self._waiting.pop(self._next, None)
            if counted is None and not skipped:
                break
            self._next += 1
            if counted is not None and counted.query is not None:
                self.waiting_of[len(counted.query.tools)] -= 1
            if counted is not None and not skipped:
                self._count(counted)

    def counts(self) -> dict[str, Any]:
        """Attempts = accepted + declined + rejected + failed, reason by reason."""
        return {
            "attempts": self.attempts,
            "accepted": self.accepted,
            **self.losses.counts(),
            "leak_word": self.leak_words,
        }

    def describe_accepted(self) -> str:
        """Such as "12 queries"."""
        return count(self.accepted, "query", "queries")

    def _count(self, attempt: Attempt) -> None:
        record, query = attempt.record, attempt.query
        like = None if query is None else self._seen.find_like(query.query)
        if like is not None:
            query = None
            changed = {"outcome": "rejected", "reason": "near-duplicate"}
            changed["detail"] = f"like {self.queries[like].id}"
            record = record.model_copy(update={**changed, "query_id": None})
        if query is not None:
            self.queries.append(query)
            self.accepted_of[len(query.tools)] += 1
            self._seen.add(query.query)
            self.leak_words += attempt.leak_words > 0
        elif record.outcome != "accepted":
            self.losses.add(record.outcome, record.reason, record.detail)
            if like is None and len(record.requests) > 1:
                self.losses.polished[record.outcome, record.reason] += 1
        self.ended.append(record)


class PassRate:
    """How many of the open attempts are likely to give a query, for engines that reply in rounds.

    The share of replies that pass is that of the replies so far, with 20 more of which 18 passed.
    `drafts` counts the attempts whose draft passed and whose polish has no reply yet, by the number
    of tools that is requested (None: any).
    """

    def __init__(self) -> None:
        self.drafts: Counter[int | None] = Counter()
        self._drafted: set[int] = set()
        self._passed, self._answered = 18, 20

    def count_draft(self, number: int, asked: int | None) -> None:
        """Count a draft that passed; each round reads it again."""
        if number not in self._drafted:
            self._drafted.add(number)
            self.drafts[asked] += 1
            self._passed += 1
            self._answered += 1

    def count(self, number: int, asked: int | None, has_passed: bool) -> None:
        """Count the last reply of an attempt."""
        self.drafts[asked] -= number in self._drafted
        self._answered += 1
        self._passed += has_passed

    def suffice(
        self, waiting: int, lacking: int, asked: int | None, *, in_rounds: bool
    ) -> bool:
        """Return whether attempts that wait for replies will do for the queries that are lacking.

        In rounds they do if they give enough with a probability of 95 % (by the normal
        approximation), or if they are twice as many.
        """
        if lacking <= 0 or not in_rounds:
            return waiting >= lacking
        share, drafts = self._passed / self._answered, self.drafts[asked]
        groups = (drafts, share), (waiting - drafts, share**2)
        mean = sum(n * p for n, p in groups)
        variance = sum(n * p * (1 - p) for n, p in groups)
        return mean - _Z95 * math.sqrt(variance) >= lacking or waiting >= 2 * lacking


def describe_writer(engine: Engine, prompt_hash: str) -> dict[str, Any]:
    """Describe for bank.json what wrote a part of a bank, and which tools it lacked."""
    missing: dict[str, int] = getattr(engine, "missing", {})
    return {
        "engine": engine.name,
        "model": engine.model,
        "prompt_hash": prompt_hash,
        "missing_tools": dict(sorted(missing.items())),
    }


def count_by_prompt(
    banks: Iterable[Mapping[str, Any]],
) -> dict[str, dict[str, int]]:
    """Count how attempts ended by the hash of their prompt, from bank.json of several banks.

    `repetitions` are near-duplicates, and `copies` repeat an example of the prompt. Of banks with
    the same prompt the last counts, since later banks contain the attempts of earlier ones.
    """
    found: dict[str, dict[str, int]] = {}
    for info in banks:
        prompt = str((info.get("generate") or {}).get("prompt_hash") or "")
        counts = info.get("counts") or {}
        if not (prompt and counts):
            continue
        rejected = counts.get("rejected") or {}
        found.pop(prompt, None)
        found[prompt] = {
            "attempts": counts.get("attempts", 0),
            "accepted": counts.get("accepted", 0),
            "declined": counts.get("declined", 0),
            "repetitions": rejected.get("near-duplicate", 0),
            "copies": rejected.get("copies-example", 0),
        }
    return found
