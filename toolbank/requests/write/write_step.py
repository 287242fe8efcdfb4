"""Write queries: sample tools, write, check, polish, check, until there are enough."""

from __future__ import annotations

import gc
import itertools
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from toolbank.bank.records import AttemptRecord, Provenance, Query, Tool
from toolbank.bank.split import CatalogueVersion, find_version
from toolbank.llm.chat import (
    ChatReply,
    ChatRequest,
    Engine,
    Offer,
    Rejection,
    WriteTask,
    check_finish,
)
from toolbank.llm.engines import find_engine
from toolbank.llm.engines.kind import EngineContext
from toolbank.llm.journal import Journal
from toolbank.llm.step import (
    SAMPLE_SIZE,
    UNUSABLE_AT_FIRST,
    FollowUp,
    SampleCalls,
    Step,
    StepAnswer,
    StepResult,
    StepRun,
    StepSample,
    describe_ending,
    run_step,
)
from toolbank.requests.write.bank_builder import (
    Attempt,
    BankBuilder,
    PassRate,
    describe_writer,
)
from toolbank.requests.write.checks import Draft, read_draft, read_polished
from toolbank.requests.write.config import (
    GenerateConfig,
    Quotas,
    fit_to_tools,
    share_out,
)
from toolbank.requests.write.prompts import SAMPLE_REASON, sample_drafts
from toolbank.requests.write.sampling import Sampler
from toolbank.system.errors import InterruptedByUserError, ToolbankError
from toolbank.system.numbers import count
from toolbank.system.terminal import command

_ATTEMPTS_PER_QUERY = 5
# Most objects live as long as their attempt, and few are in cycles: the default of 700 takes a tenth
# of the CPU.
_OBJECTS_BEFORE_COLLECTION = 20_000


class NothingAcceptedError(ToolbankError):
    """No attempt gave a query; `attempts` records how each ended."""

    def __init__(self, message: str, attempts: Collection[AttemptRecord]) -> None:
        super().__init__(message)
        self.attempts = attempts


@dataclass(frozen=True)
class BankQueries:
    """Accepted queries in attempt order, the record of each attempt, and exact counts.

    `info` describes the writer for bank.json.
    """

    queries: Collection[Query]
    attempts: Collection[AttemptRecord]
    counts: dict[str, Any]
    info: dict[str, Any]


@dataclass(frozen=True)
class PolishedDraft:
    """A query that passed every check, and the draft that it was made from."""

    query: str
    draft: Draft
    tools: Sequence[Tool]
    leak_words: int


class WriteStep(Step[Draft | PolishedDraft, BankQueries]):
    """Run the attempts of a bank in order: each writes, checks, polishes and checks.

    An attempt starts only if it is certain to count: no more are open than queries are missing, and
    none is far ahead of a slow one. After the first few, at least one has to be accepted. Quotas
    apply this to each number of tools: an attempt whose number may be complete waits until that is
    certain. If replies come in rounds, as many attempts start as are likely to give the missing
    queries, and those that turn out not to be needed do not count: the bank is the same. `earlier`
    are the versions of the catalogue before `tools`. Attempts do not affect each other.

    Raises:
        InputError: the bank is too small.
    """

    config: GenerateConfig
    what = "queries"
    most_calls = 2

    def __init__(
        self,
        tools: Sequence[Tool],
        config: GenerateConfig,
        domain: str,
        seed: int,
        earlier: Sequence[CatalogueVersion] = (),
        engine: Engine | None = None,
    ) -> None:
        offers = engine.offers if engine else None
        self._earlier = earlier
        self._samplers = [
            Sampler(each, config, domain, seed, offers)
            for each in (*(version.tools for version in earlier), tools)
        ]
        wanted = wanted_queries(config)
        super().__init__(config, wanted or (self._count_offers() if engine else 0))
        self._tools = tools
        self._domain = domain
        self._seed = seed
        self._most_attempts = most_attempts(config)
        self._builder = BankBuilder(
            wanted, config.near_duplicate, self._make_quotas(wanted)
        )
        self._next = 0
        # By number of tools: open attempts, and those that may not be needed.
        self._open: Counter[int] = Counter()
        self._deferred: dict[int, deque[int]] = {}
        self._passes = PassRate()

    def offer(self, number: int) -> Offer | None:
        """Return the offer of an attempt, or None past the last one."""
        return self._find_sampler(number).offer(number)

    def request(self, number: int) -> ChatRequest:
        """Make the write request."""
        return self._find_sampler(number).write_request(number)

    def read(
        self, number: int, reply: ChatReply
    ) -> Draft | Rejection | FollowUp[Draft | PolishedDraft]:
        """Check the draft, and follow up with its polish unless the writer declines."""
        sampler = self._find_sampler(number)
        draft = check_finish(reply) or read_draft(reply.text)
        if isinstance(draft, Rejection) or draft.declined:
            return draft
        tools = sampler.check_draft(number, draft)
        if isinstance(tools, Rejection):
            return tools
        self._passes.count_draft(number, self._asked_for(number))
        polish = self.polish(number, draft, tools)
        return FollowUp(polish, partial(self._read_polished, sampler, draft, tools))

    def polish(self, number: int, draft: Draft, tools: Sequence[Tool]) -> ChatRequest:
        """Make the polish request of a draft that passed."""
        return self._find_sampler(number).prompts.polish(number, draft, tools)

    def sample(self, count: int) -> list[int]:
        """List the numbers of the first attempts."""
        return [number for number in range(count) if self.offer(number) is not None]

    def sample_calls(self) -> StepSample:
        """Sample the first writes, and polishes of drafts as long as the examples."""
        drafts = sample_drafts(self._domain)
        writes, polishes = [], []
        for number in self.sample(SAMPLE_SIZE):
            write = self.request(number)
            if not isinstance(task := write.task, WriteTask):
                break
            chosen = task.tools[: (task.at_least + task.at_most) // 2]
            writes.append(write)
            draft = drafts[number % len(drafts)]
            polishes.append(self.polish(number, draft, chosen))
        polished = {"already_good": False, "reason": SAMPLE_REASON}
        rewritten = [{**polished, "query": draft.draft} for draft in drafts]
        calls = (
            SampleCalls("write", writes, [asdict(one) for one in drafts], "write"),
            SampleCalls("polish", polishes, rewritten, "polish"),
        )
        return StepSample(self.total, calls, writes)

    def describe(self, answer: StepAnswer[Draft | PolishedDraft]) -> str:
        """Such as "accepted: Which invoices are open?"."""
        value = answer.value
        if isinstance(value, PolishedDraft):
            return f"accepted: {value.query}"
        if isinstance(value, Draft):
            return describe_ending("declined", "", value.reason)
        return super().describe(answer)

    def choose(self, run: StepRun) -> int | None:
        """Choose the next attempt that is certain to count, if there is one."""
        builder = self._builder
        found = builder.accepted or builder.waiting_candidates or run.missing
        if run.begun >= UNUSABLE_AT_FIRST and not found:
            return None
        in_rounds = run.pool.in_rounds
        if builder.wanted is not None and not (in_rounds and builder.quotas):
            waiting = run.open + len(run.missing)
            lacking = builder.wanted - builder.accepted - builder.waiting_candidates
            if self._passes.suffice(waiting, lacking, None, in_rounds=in_rounds):
                return None
        for asked, deferred in self._deferred.items():
            while deferred and builder.is_skipped(deferred[0]):
                deferred.popleft()
            if deferred and self._take(asked, run):
                return deferred.popleft()
        while self._has_next(run):
            number = self._next
            self._next += 1
            asks_for = self._asked_for(number)
            if asks_for is None or self._take(asks_for, run):
                return number
            self._deferred.setdefault(asks_for, deque()).append(number)
        return None

    def accept(
        self, number: int, answer: StepAnswer[Draft | PolishedDraft], run: StepRun
    ) -> None:
        """Take an attempt, which counts once all before it have ended."""
        if (asked := self._asked_for(number)) is not None:
            self._open[asked] -= 1
        self._passes.count(number, asked, isinstance(answer.value, PolishedDraft))
        attempt = self._make_attempt(number, answer, run.pool.engine)
        self._builder.accept(attempt)

    def is_needed(self, number: int) -> bool:
        """Return whether the bank still lacks queries such as this attempt may give."""
        return not (self._builder.is_full or self._builder.is_skipped(number))

    def count_needed(self, waiting: int) -> int:
        """Count the attempts that the bank needs if every one gives a query."""
        is_limited = self._builder.wanted is not None
        return min(waiting, self._builder.count_lacking()) if is_limited else waiting

    def progress(self) -> tuple[int, int]:
        """Count the accepted queries, and the attempts without one."""
        accepted = self._builder.accepted
        return accepted, self._builder.attempts - accepted

    def fold(self, run: StepRun) -> StepResult[BankQueries]:
        """Collect the queries of all attempts that count.

        Raises:
            NothingAcceptedError: there is none.
        """
        builder, engine = self._builder, run.pool.engine
        if not (builder.accepted or run.waiting):
            raise self._explain_nothing(run)
        counts = builder.counts()
        if builder.quotas:
            counts["tools_per_query"] = _count_numbers(builder.quotas, builder)
        wanted = builder.wanted
        is_short = wanted is not None and builder.accepted < wanted
        is_part = run.waiting or (is_short and counts["failed"]) or run.pool.stop
        message = (
            f"{builder.describe_accepted()} of {count(builder.attempts, 'attempt')}"
        )
        if wanted is not None and is_short:
            message += f" ({wanted:,} requested)"
        writer = describe_writer(engine, self._samplers[-1].prompts.hash)
        return StepResult(
            BankQueries(
                builder.queries,
                builder.ended,
                counts,
                {**writer, "examples": dict(sorted(builder.losses.examples.items()))},
            ),
            message,
            lacks=f"{builder.accepted:,}{f' of {wanted:,}' if wanted else ''} queries"
            if is_part
            else "",
            problems=tuple(self._list_problems(writer["missing_tools"])),
            failed=builder.losses.describe("failed"),
            so_far=builder.describe_accepted() if builder.accepted else "",
        )

    def explain_interrupt(self, run: StepRun) -> ToolbankError:
        """Explain what is kept after Ctrl-C, and how to resume."""
        builder = self._builder
        said = run.explain_interrupt(f"{builder.describe_accepted()} accepted")
        if builder.accepted:
            said += (
                " To make a bank of these queries, add:\n"
                f"  --set generate.queries={builder.accepted}"
            )
        return InterruptedByUserError(said)

    def _find_sampler(self, number: int) -> Sampler:
        """The sampler of the catalogue's version that an attempt was begun under."""
        return self._samplers[find_version(number, self._earlier)]

    def _read_polished(
        self, sampler: Sampler, draft: Draft, tools: Sequence[Tool], reply: ChatReply
    ) -> PolishedDraft | Rejection:
        checker = sampler.checker
        query = check_finish(reply) or read_polished(reply.text, draft.draft)
        if isinstance(query, str):
            query = checker.check_text(query) or query
        if isinstance(query, Rejection):
            return query
        leak_words = len(checker.texts.leak_words(query, tools))
        return PolishedDraft(query, draft, tools, leak_words)

    def _make_attempt(
        self, number: int, answer: StepAnswer[Draft | PolishedDraft], engine: Engine
    ) -> Attempt:
        value = answer.value
        make = partial(AttemptRecord, attempt=number, requests=answer.keys)
        if isinstance(value, Rejection):
            return Attempt(
                make(
                    outcome="failed" if answer.failed else "rejected",
                    reason=value.reason,
                    detail=value.detail,
                )
            )
        if isinstance(value, Draft):
            return Attempt(make(outcome="declined", detail=value.reason))
        query = Query(
            id=f"{self._domain}-{number:06d}",
            query=value.query,
            draft=value.draft.draft,
            tools=tuple(tool.name for tool in value.tools),
            explanation=value.draft.explanation,
            domain=self._domain,
            provenance=Provenance(
                attempt=number,
                engine=engine.name,
                model=answer.model,
                prompt_hash=self._find_sampler(number).prompts.hash,
                seed=self._seed,
                requests=answer.keys,
            ),
        )
        record = make(outcome="accepted", query_id=query.id)
        return Attempt(record, query, value.leak_words)

    def _has_next(self, run: StepRun) -> bool:
        is_near = run.missing or self._builder.has_room_for(self._next)
        if not is_near or self._next == self._most_attempts:
            return False
        return self.offer(self._next) is not None

    def _asked_for(self, number: int) -> int | None:
        """The number of tools that an attempt has to have, if there are quotas."""
        quotas = self._builder.quotas
        return quotas.number_of(number) if quotas else None

    def _take(self, asked: int, run: StepRun) -> bool:
        """Count an attempt as open if another query of its number of tools is needed."""
        builder = self._builder
        if builder.quotas and asked in builder.quotas.wanted:
            there = builder.accepted_of[asked] + builder.waiting_of[asked]
            lacking = builder.quotas.wanted[asked] - there
            waiting, in_rounds = self._open[asked], run.pool.in_rounds
            if self._passes.suffice(waiting, lacking, asked, in_rounds=in_rounds):
                return False
        self._open[asked] += 1
        return True

    def _count_offers(self) -> int:
        """Count the offers of an engine whose offers end."""
        return next(n for n in itertools.count() if self.offer(n) is None)

    def _make_quotas(self, wanted: int | None) -> Quotas | None:
        if not (self.config.tools_per_query and wanted):
            return None
        shares = fit_to_tools(self.config, self._tools).tools_per_query or {}
        return Quotas(share_out(shares, wanted), self._number_of)

    def _number_of(self, attempt: int) -> int | None:
        """The number of tools that an attempt is asked for; None past the last attempt."""
        most = self._most_attempts
        offer = None if most and attempt >= most else self.offer(attempt)
        return None if offer is None else offer.at_most

    def _list_problems(self, missing: Mapping[str, int]) -> Iterator[str]:
        """List what the user should know of the bank."""
        builder = self._builder
        if builder.quotas and builder.accepted:
            for number, wanted in builder.quotas.wanted.items():
                if (made := builder.accepted_of[number]) < wanted:
                    of = count(number, "tool")
                    yield f"{made:,} of {count(wanted, 'query', 'queries')} with {of}"
        if said := builder.losses.describe("declined", "rejected"):
            yield f"not accepted: {said}"
        if missing:
            yield (
                f"{count(len(missing), 'offered tool is', 'offered tools are')} not in the bank "
                f"({count(sum(missing.values()), 'offer')}), such as {next(iter(missing))}; all are "
                "in bank.json"
            )

    def _explain_nothing(self, run: StepRun) -> NothingAcceptedError:
        """Explain why there is no query."""
        builder, folder = self._builder, run.pool.folder
        look = [
            f"Look at what {run.pool.engine.name} is asked and answers, in the first attempt and in "
            "new ones:",
            f"  {command('show', folder)} 0",
            f"  {command('preview', folder)}",
        ]
        is_declined = all(one.outcome == "declined" for one in builder.ended)
        if is_declined and not self.config.tools_per_query:
            look.append(
                "No offered tools belong together. To write requests of one tool each, add "
                "--set 'generate.tools_per_query={1: 1}'."
            )
        tried = count(builder.attempts, "attempt")
        said = run.explain_nothing(
            "a query", tried, builder.losses.list_reasons(), look
        )
        return NothingAcceptedError(said, builder.ended)


def generate(
    tools: Sequence[Tool],
    config: GenerateConfig,
    *,
    domain: str,
    seed: int,
    journal: Journal,
    earlier: Sequence[CatalogueVersion] = (),
) -> StepResult[BankQueries]:
    """Run attempts until the requested number of queries is accepted or attempts run out.

    Attempts that started under an `earlier` version of the catalogue keep it. The result depends on
    the arguments and the journal alone, whatever the concurrency. Queries are missing if calls
    failed or a budget is spent.

    Raises:
        InputError: the recipe requires what the bank or the engine can't provide.
        NothingAcceptedError: no reply can be used; it has the record of each attempt.
        ToolbankError: the endpoint is down or refuses, or the run was interrupted. Open calls have
            finished, and every reply is in the journal.
    """
    context = EngineContext(tools, seed, journal.path.parent, earlier)
    make_step = partial(WriteStep, tools, config, domain, seed, earlier)
    with _fewer_collections():
        return run_step(config, journal, context, make_step)


@contextmanager
def _fewer_collections() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTION)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def wanted_queries(config: GenerateConfig) -> int | None:
    """Return how many queries a run should accept; None means all that the engine has."""
    return config.queries or find_engine(config).default_queries


def most_queries(config: GenerateConfig) -> int | None:
    """Return how many queries a run accepts at most; None if unknown.

    Raises:
        InputError: the file of replies can't be read.
    """
    recorded = find_engine(config).count_queries(config)
    known = [n for n in (wanted_queries(config), recorded) if n is not None]
    return min(known, default=None)


def most_attempts(config: GenerateConfig) -> int | None:
    """Return how many attempts a run makes at most; None means all offers."""
    wanted = wanted_queries(config)
    return config.max_attempts or (wanted and wanted * _ATTEMPTS_PER_QUERY)


def _count_numbers(quotas: Quotas, builder: BankBuilder) -> dict[str, dict[str, int]]:
    """Count the attempts and the accepted queries of each number of tools."""
    asked = Counter(quotas.number_of(record.attempt) for record in builder.ended)
    return {
        str(number): {"asked": asked[number], "accepted": builder.accepted_of[number]}
        for number in sorted(quotas.wanted)
    }
