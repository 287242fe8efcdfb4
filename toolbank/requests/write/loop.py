"""Run many attempts at once and fold them into a bank in a fixed order."""

from __future__ import annotations

import gc
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from toolbank.bank.catalogue import Version
from toolbank.bank.records import AttemptRecord, Query, Tool
from toolbank.llm.journal import Journal
from toolbank.llm.pool import Carrier
from toolbank.llm.progress import describe_spent, note_unpriced, show_progress
from toolbank.llm.stop import EarlyEnd
from toolbank.requests.write.attempts import Attempt, AttemptMaker, Outcome
from toolbank.requests.write.config import GenerateConfig, Quotas, fit_to_tools
from toolbank.requests.write.near_duplicates import DiskList, NearDuplicates
from toolbank.requests.write.writers import find_writer
from toolbank.system import aio
from toolbank.system.errors import Interrupted, ToolbankError
from toolbank.system.numbers import count
from toolbank.system.terminal import command

_EXAMPLES = 3
# About 20 MB of attempts, should the first of so many take long.
_WINDOW = 5000


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
    polishes: Counter[tuple[Outcome, str]] = field(default_factory=Counter)
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


_SHOWN = 160
_REJECTED: tuple[Outcome, ...] = ("declined", "rejected")
_FAILED: tuple[Outcome, ...] = ("failed",)


def summarise(maker: AttemptMaker, builder: BankBuilder) -> str:
    """Such as "20 queries of 25 attempts (30 were wanted); 45 replies asked for"."""
    message = f"{_accepted(builder)} of {count(builder.attempts, 'attempt')}"
    if builder.wanted is not None and builder.accepted < builder.wanted:
        message += (
            f" ({builder.wanted:,} {'was' if builder.wanted == 1 else 'were'} wanted)"
        )
    return f"{message}; {describe_spent(maker.pool)}"


def describe_wait(pending: int, builder: BankBuilder) -> str:
    """Such as "12 requests wait for their replies"."""
    wait = count(pending, "request waits", "requests wait")
    so_far = f"; {_accepted(builder)} so far" if builder.accepted else ""
    return f"{wait} for {'its reply' if pending == 1 else 'their replies'}{so_far}"


def list_problems(maker: AttemptMaker, builder: BankBuilder) -> Iterator[str]:
    """What the user should know of a bank that was made."""
    if maker.pool.stop.cause == "budget":
        yield f"stopped early: {maker.pool.stop.message}"
    if builder.quotas and builder.accepted:
        for number, wanted in builder.quotas.wanted.items():
            if (made := builder.accepted_of[number]) < wanted:
                of = count(number, "tool")
                yield f"{made:,} of {count(wanted, 'query', 'queries')} with {of}"
    if said := _reasons(builder, _REJECTED):
        yield f"not accepted: {said}"
    if builder.failed:
        yield f"failed: {_reasons(builder, _FAILED)}"
        yield f"the last failure: {maker.last_failure}"
    yield from note_unpriced(maker.pool, maker.config.section)
    missing = maker.describe()["missing_tools"]
    if missing:
        yield (
            f"{count(len(missing), 'offered tool is', 'offered tools are')} not in the bank "
            f"({count(sum(missing.values()), 'offer')}), such as {next(iter(missing))}; all are "
            "in bank.json"
        )


def explain_interrupt(maker: AttemptMaker, builder: BankBuilder) -> str:
    """What is kept after Ctrl-C, and how to go on."""
    message = (
        f"stopped in generate, with {_accepted(builder)} accepted. Every reply that came "
        f"is kept ({describe_spent(maker.pool)}); the same command goes on from there."
    )
    if builder.accepted:
        message += (
            " To make a bank of what there is, add to it:\n"
            f"  --set generate.queries={builder.accepted}"
        )
    return message


def explain_nothing(maker: AttemptMaker, builder: BankBuilder) -> str:
    """Why there is not one query."""
    stop = maker.pool.stop
    if stop.cause == "budget":
        return (
            f"no query was accepted before the run stopped: {stop.message}. The replies that "
            "came are kept."
        )
    lines = [
        f"None of {count(builder.attempts, 'attempt')} gave a query that can be used "
        f"({maker.pool.counts.summary()}):",
        *(f"  {line}" for line in _list_reasons(builder)),
        f"Look at what {maker.engine.name} is asked and answers, in the first attempt and in new "
        "ones:",
        f"  {command('show', maker.folder)} 0",
        f"  {command('preview', maker.folder)}",
    ]
    is_declined = all(one.outcome == "declined" for one in builder.ended)
    if is_declined and not maker.config.tools_per_query:
        lines.append(
            "No tools that were offered go together. Where requests of one tool each will do, add "
            "--set 'generate.tools_per_query={1: 1}'."
        )
    if find_writer(maker.config).asks_model:
        lines.append(
            "Replies that are in the journal are not asked for again: if the endpoint is mended "
            "since, give another --out."
        )
    return "\n".join(lines)


def _accepted(builder: BankBuilder) -> str:
    return count(builder.accepted, "query", "queries")


def _reasons(builder: BankBuilder, outcomes: Iterable[Outcome]) -> str:
    return ", ".join(said for _, said in _count_reasons(builder, outcomes))


def _list_reasons(builder: BankBuilder) -> Iterator[str]:
    """A line for each reason, with an example where it has particulars; failures come last."""
    for prefix, outcomes in (("", _REJECTED), ("failed: ", _FAILED)):
        for reason, said in _count_reasons(builder, outcomes):
            example = " ".join(next(iter(builder.examples.get(reason, ())), "").split())
            yield f"{prefix}{said}{example and f', such as: {example[:_SHOWN]}'}"


def _count_reasons(
    builder: BankBuilder, outcomes: Iterable[Outcome]
) -> Iterator[tuple[str, str]]:
    """Each reason, and how often it was one, such as "not-json 3 (1 in the polish)"; often first."""
    counts: Counter[str] = Counter()
    polished: Counter[str] = Counter()
    for outcome in outcomes:
        counter: Counter[str] = getattr(builder, outcome)
        for reason, number in counter.items():
            counts[reason or outcome] += number
            polished[reason or outcome] += builder.polishes[outcome, reason]
    for reason, number in sorted(counts.items(), key=lambda row: (-row[1], row[0])):
        of_those = f" ({polished[reason]:,} in the polish)" if polished[reason] else ""
        yield reason, f"{reason} {number:,}{of_those}"


# A model whose first replies are all unusable will hardly do better.
UNUSABLE_AT_FIRST = 50


class NothingAcceptedError(ToolbankError):
    """No attempt gave a query; `attempts` says what became of each."""

    def __init__(self, message: str, attempts: Collection[AttemptRecord]) -> None:
        super().__init__(message)
        self.attempts = attempts


class Attempts:
    """The attempts of a run, in their order; those that end go to the builder.

    One is begun where it is sure to count: no more are open than queries are missing, and none
    far ahead of one that takes long; and past the first few only once one is accepted. Where there
    are quotas, so it is for each number of tools: an attempt whose number may have enough waits
    until that is sure. `pending` is how many wait for a later round at the end.
    """

    def __init__(
        self, maker: AttemptMaker, builder: BankBuilder, most_attempts: int | None
    ) -> None:
        self._maker = maker
        self._builder = builder
        self._most_attempts = most_attempts
        self._carrier = Carrier(maker.pool, self._attempt, self._begin)
        self._next = 0
        self._begun = 0
        # By number of tools: attempts under way, and those that may not be needed.
        self._under_way: Counter[int] = Counter()
        self._deferred: dict[int, deque[int]] = {}

    @property
    def pending(self) -> int:
        """How many wait for their replies."""
        return self._carrier.pending

    async def work(self) -> str:
        """Make all attempts; gives what the user has to do before the pending ones, or "".

        Raises:
            NothingAcceptedError: none of the first few gave a query.
            ToolbankError: a round can't be sent.
        """
        return await self._carrier.work()

    def _begin(self) -> int | None:
        """The next attempt that is sure to count, if there is one."""
        number = self._choose() if self._is_wanting() else None
        if number is not None:
            self._begun += 1
        return number

    def _is_wanting(self) -> bool:
        builder, missing = self._builder, self._carrier.missing
        found = builder.accepted or builder.waiting_candidates or missing
        if self._begun >= UNUSABLE_AT_FIRST and not found:
            return False
        waiting = self._carrier.open + len(missing) + builder.waiting_candidates
        return builder.wanted is None or builder.accepted + waiting < builder.wanted

    def _choose(self) -> int | None:
        quotas = self._builder.quotas
        for asked, deferred in self._deferred.items():
            while deferred and self._builder.is_passed_over(deferred[0]):
                deferred.popleft()
            if deferred and self._take(asked):
                return deferred.popleft()
        while self._has_next():
            number = self._next
            self._next += 1
            asks_for = quotas.number_of(number) if quotas else None
            if asks_for is None or self._take(asks_for):
                return number
            self._deferred.setdefault(asks_for, deque()).append(number)
        return None

    def _has_next(self) -> bool:
        is_near = self._carrier.missing or self._builder.has_room_for(self._next)
        if not is_near or self._next == self._most_attempts:
            return False
        return self._maker.offer(self._next) is not None

    def _take(self, asked: int) -> bool:
        """Count an attempt as under way, if another query of so many tools is wanted."""
        builder = self._builder
        there = builder.accepted_of[asked] + builder.waiting_of[asked]
        quotas = builder.quotas
        if quotas and not quotas.has_room(asked, there + self._under_way[asked]):
            return False
        self._under_way[asked] += 1
        return True

    async def _attempt(self, number: int) -> None:
        builder = self._builder
        attempt = await self._maker.attempt(number)
        if builder.quotas and (asked := builder.quotas.number_of(number)) is not None:
            self._under_way[asked] -= 1
        builder.accept(attempt)
        if builder.attempts >= UNUSABLE_AT_FIRST and not builder.accepted:
            raise NothingAcceptedError(
                explain_nothing(self._maker, builder), builder.ended
            )


_ATTEMPTS_PER_QUERY = 5
# Most objects live as long as their attempt, and few are in cycles: Python 3.11's 700 takes a tenth
# of the CPU.
_OBJECTS_BEFORE_COLLECTION = 20_000


@dataclass(frozen=True)
class Generated:
    """Accepted queries in attempt order, what became of each attempt, and exact counts.

    Not `complete`: queries are missing and calls failed or a budget is spent, so another run may
    get further. `waiting` is not empty where replies come with a later round: what the user has
    to do until then. There is no bank to write yet. `ended_early` tells of a budget
    that is spent.
    """

    queries: Collection[Query]
    attempts: Collection[AttemptRecord]
    counts: dict[str, Any]
    info: dict[str, Any]
    message: str
    complete: bool
    problems: tuple[str, ...]
    waiting: str = ""
    ended_early: EarlyEnd | None = None


def generate(
    tools: Sequence[Tool],
    config: GenerateConfig,
    *,
    domain: str,
    seed: int,
    journal: Journal,
    earlier: Sequence[Version] = (),
) -> Generated:
    """Run attempts until the wanted number of queries is accepted or attempts run out.

    Those that were begun under one of the `earlier` versions of the catalogue keep it.
    The result is a function of the arguments and the journal alone, whatever the concurrency.

    Raises:
        InputError: the recipe asks for what the bank or the engine can't give.
        NothingAcceptedError: nothing that it writes can be used; what became of each attempt.
        ToolbankError: the endpoint is down or refuses, or the run was interrupted. What was in
            flight has finished, and every reply is in the journal.
    """
    maker = AttemptMaker(tools, config, domain, seed, journal, earlier)
    with _fewer_collections():
        return aio.run(_generate(maker), uvloop=True)


def wanted_queries(config: GenerateConfig) -> int | None:
    """How many queries a run is to accept; None is as many as the engine brings."""
    return config.queries or find_writer(config).default_queries


def most_queries(config: GenerateConfig) -> int | None:
    """How many queries a run accepts at most: those wanted, or fewer where the engine ends.

    None where that isn't known.

    Raises:
        InputError: the file that it has them of can't be read.
    """
    brings = find_writer(config).count_queries(config)
    known = [n for n in (wanted_queries(config), brings) if n is not None]
    return min(known, default=None)


def most_attempts(config: GenerateConfig) -> int | None:
    """How many attempts a run makes at most; None is as many as there are offers."""
    wanted = wanted_queries(config)
    return config.max_attempts or (wanted and wanted * _ATTEMPTS_PER_QUERY)


@contextmanager
def _fewer_collections() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTION)
    try:
        yield
    finally:
        gc.set_threshold(*before)


async def _generate(maker: AttemptMaker) -> Generated:
    config, stop = maker.config, maker.pool.stop
    wanted = wanted_queries(config)
    builder = BankBuilder(wanted, config.near_duplicate, _quotas(maker, wanted))
    attempts = Attempts(maker, builder, most_attempts(config))
    waiting = ""
    async with maker.pool.working():
        total = wanted or maker.count_offers()
        with show_progress("queries", builder.progress, maker.pool, total):
            waiting = await attempts.work()
    if stop.cause == "interrupt":
        raise Interrupted(explain_interrupt(maker, builder))
    if not (builder.accepted or waiting):
        raise NothingAcceptedError(explain_nothing(maker, builder), builder.ended)
    counts = builder.counts()
    if builder.quotas:
        counts["tools_per_query"] = _count_numbers(builder.quotas, builder)
    is_short = wanted is not None and builder.accepted < wanted
    return Generated(
        queries=builder.queries,
        attempts=builder.ended,
        counts=counts,
        info={**maker.describe(), "examples": dict(sorted(builder.examples.items()))},
        message=(
            describe_wait(attempts.pending, builder)
            if waiting
            else summarise(maker, builder)
        ),
        complete=not (waiting or (is_short and counts["failed"]) or stop),
        problems=tuple(list_problems(maker, builder)),
        waiting=waiting,
        ended_early=EarlyEnd(stop.message, stop.option) if stop else None,
    )


def _quotas(maker: AttemptMaker, wanted: int | None) -> Quotas | None:
    if not (maker.config.tools_per_query and wanted):
        return None
    shares = fit_to_tools(maker.config, maker.tools).tools_per_query or {}
    most = most_attempts(maker.config)

    def number_of(attempt: int) -> int | None:
        is_past = most is not None and attempt >= most
        offer = None if is_past else maker.offer(attempt)
        return None if offer is None else offer.at_most

    return Quotas(shares, wanted, number_of)


def _count_numbers(quotas: Quotas, builder: BankBuilder) -> dict[str, dict[str, int]]:
    """How many attempts asked for each number of tools, and how many queries there are of it."""
    asked = Counter(quotas.number_of(record.attempt) for record in builder.ended)
    return {
        str(number): {"asked": asked[number], "accepted": builder.accepted_of[number]}
        for number in sorted(quotas.wanted)
    }
