"""Fold attempts into a bank in a fixed order, whatever the order in which they come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from toolbank.bank.records import AttemptRecord, Query
from toolbank.llm.accounts import rank_reasons
from toolbank.llm.chat import Engine
from toolbank.requests.write.config import Quotas
from toolbank.requests.write.near_duplicates import DiskList, NearDuplicates
from toolbank.system.numbers import count

AttemptEnding = Literal["accepted", "declined", "rejected", "failed"]

_EXAMPLES = 3
# About 20 MB of attempts, should the first of so many take long.
_WINDOW = 5000
_SHOWN = 160
_REJECTED: tuple[AttemptEnding, ...] = ("declined", "rejected")
_FAILED: tuple[AttemptEnding, ...] = ("failed",)


@dataclass(frozen=True)
class Attempt:
    """How one attempt ended: a query that passed every check, or why there is none.

    `requests` are the keys of its calls in the journal.
    """

    number: int
    outcome: AttemptEnding
    reason: str = ""
    detail: str = ""
    query: Query | None = None
    leak_words: int = 0
    requests: tuple[str, ...] = ()

    @property
    def has_asked_polish(self) -> bool:
        """Whether its draft passed, so that it ended with the polish."""
        return len(self.requests) > 1


@dataclass
class BankBuilder:
    """Takes attempts in any order, and builds a list of accepted queries in theirs.

    The result depends on the attempts alone, not on when each came in. Near-duplicates are
    judged here, against all that was accepted before. With `quotas`, an attempt whose number of
    tools has all its queries is passed over: it doesn't count, made or not. `queries` and `ended`
    (a row for each attempt that counts) lie on disk. `polishes` counts, by outcome and reason,
    those of what was not accepted that came as far as the polish. `accepted_of` and `waiting_of`
    count queries by their number of tools: those accepted, and those of attempts that don't count
    yet. `examples` are the first few particulars of attempts that ended for a reason, none twice.

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
    declined: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    polishes: Counter[tuple[AttemptEnding, str]] = field(default_factory=Counter)
    leak_words: int = 0
    examples: dict[str, list[str]] = field(default_factory=dict)
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

    def progress(self) -> tuple[int, int]:
        """How many queries are accepted, and how many attempts came to nothing."""
        return self.accepted, self.attempts - self.accepted

    def has_room_for(self, number: int) -> bool:
        """Whether an attempt is near enough to the next to count, as the result waits in memory."""
        return number < self._next + _WINDOW

    def is_passed_over(self, number: int) -> bool:
        """Whether an attempt won't count, as there are all queries of its number of tools."""
        if self.quotas is None:
            return False
        asked = self.quotas.number_of(number)
        return asked is not None and not self.quotas.has_room(
            asked, self.accepted_of[asked]
        )

    def accept(self, attempt: Attempt) -> None:
        """Take an attempt in any order; it counts once all before it have come."""
        self._waiting[attempt.number] = attempt
        if attempt.query is not None:
            self.waiting_of[len(attempt.query.tools)] += 1
        while not self.is_full:
            passed_over = self.is_passed_over(self._next)
            counted = self._waiting.pop(self._next, None)
            if counted is None and not passed_over:
                break
            self._next += 1
            if counted is not None and counted.query is not None:
                self.waiting_of[len(counted.query.tools)] -= 1
            if counted is not None and not passed_over:
                self._count(counted)

    def counts(self) -> dict[str, Any]:
        """Attempts = accepted + declined + rejected + failed, reason by reason."""
        return {
            "attempts": self.attempts,
            "accepted": self.accepted,
            "declined": self.declined.total(),
            "rejected": dict(sorted(self.rejected.items())),
            "failed": dict(sorted(self.failed.items())),
            "leak_word": self.leak_words,
        }

    def describe_accepted(self) -> str:
        """Such as "12 queries"."""
        return count(self.accepted, "query", "queries")

    def describe_reasons(self, *, failed: bool) -> str:
        """Such as "not-json 3 (1 in the polish), too-long 1", of failed attempts or of others."""
        outcomes = _FAILED if failed else _REJECTED
        return ", ".join(said for _, said in self._count_reasons(outcomes))

    def list_reasons(self) -> Iterator[str]:
        """A line for each reason, with an example where it has particulars; failures come last."""
        for prefix, outcomes in (("", _REJECTED), ("failed: ", _FAILED)):
            for reason, said in self._count_reasons(outcomes):
                example = " ".join(
                    next(iter(self.examples.get(reason, ())), "").split()
                )
                such = f", such as: {example[:_SHOWN]}" if example else ""
                yield f"{prefix}{said}{such}"

    def _count_reasons(
        self, outcomes: Iterable[AttemptEnding]
    ) -> Iterator[tuple[str, str]]:
        """Each reason, and how often it was one, such as "not-json 3 (1 in the polish)"."""
        counts: Counter[str] = Counter()
        polished: Counter[str] = Counter()
        for outcome in outcomes:
            counter: Counter[str] = getattr(self, outcome)
            for reason, number in counter.items():
                counts[reason or outcome] += number
                polished[reason or outcome] += self.polishes[outcome, reason]
        for reason, number in rank_reasons(counts):
            of_those = (
                f" ({polished[reason]:,} in the polish)" if polished[reason] else ""
            )
            yield reason, f"{reason} {number:,}{of_those}"

    def _count(self, attempt: Attempt) -> None:
        query = attempt.query
        like = None if query is None else self._seen.find_like(query.query)
        if like is not None:
            query, detail = None, f"like {self.queries[like].id}"
            attempt = replace(
                attempt, outcome="rejected", reason="near-duplicate", detail=detail
            )
        if query is not None:
            self.queries.append(query)
            self.accepted_of[len(query.tools)] += 1
            self._seen.add(query.query)
            self.leak_words += attempt.leak_words > 0
        else:
            counter: Counter[str] = getattr(self, attempt.outcome)
            counter[attempt.reason] += 1
            if like is None and attempt.has_asked_polish:
                self.polishes[attempt.outcome, attempt.reason] += 1
            examples = self.examples.setdefault(attempt.reason or attempt.outcome, [])
            is_new = attempt.detail and attempt.detail not in examples
            if is_new and len(examples) < _EXAMPLES:
                examples.append(attempt.detail)
        self.ended.append(
            AttemptRecord(
                attempt=attempt.number,
                outcome=attempt.outcome,
                reason=attempt.reason,
                detail=attempt.detail,
                query_id=None if query is None else query.id,
                requests=attempt.requests,
            )
        )


def describe_writer(engine: Engine, prompt_hash: str) -> dict[str, Any]:
    """What wrote a part of a bank, for its record: who, by which prompts, and lacking which tools."""
    missing: dict[str, int] = getattr(engine, "missing", {})
    return {
        "engine": engine.name,
        "model": engine.model,
        "prompt_hash": prompt_hash,
        "missing_tools": dict(sorted(missing.items())),
    }
