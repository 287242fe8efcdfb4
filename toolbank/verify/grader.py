"""Getting grades from an engine: many calls in flight, each request by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolbank.bank.bank import Bank, GraderKind, Label
from toolbank.llm.chat import EngineError, Rejection
from toolbank.llm.engines.kind import EngineContext, EngineKind
from toolbank.llm.journal import Journal
from toolbank.llm.pool import Carrier, FailuresInARow, Pool
from toolbank.llm.progress import describe_spent, note_unpriced, show_progress
from toolbank.llm.stop import EarlyEnd
from toolbank.system.errors import Interrupted
from toolbank.system.numbers import count
from toolbank.verify.candidates import Candidate
from toolbank.verify.config import VerifyConfig
from toolbank.verify.gradings import Grading, make_grading
from toolbank.verify.prompt import VerifyPrompts
from toolbank.verify.replies import read_grades


@dataclass(frozen=True)
class Grades:
    """What an engine graded: gradings of requests, and what the calls came to."""

    gradings: Sequence[Grading] = ()
    content: Mapping[str, Any] = field(default_factory=dict)
    spent: str = ""
    lacks: str = ""
    problems: tuple[str, ...] = ()
    waiting: str = ""
    ended_early: EarlyEnd | None = None


class Grader:
    """Asks for the grades of one request after the other; none counts for another.

    Of requests that the engine doesn't bring, where it brings its own, none are asked for; such an
    engine may name any tool of the bank.

    Raises:
        InputError: the engine lacks a model, key or file, or the prompt isn't there.
    """

    def __init__(
        self,
        kind: EngineKind[VerifyConfig],
        bank: Bank,
        candidates: Mapping[str, Sequence[Candidate]],
        config: VerifyConfig,
        domain: str,
        seed: int,
        journal: Journal,
    ) -> None:
        self.config = config
        context = EngineContext(bank.tools, seed, journal.path.parent)
        self.pool = Pool(kind, config, journal, context)
        brought: Collection[str] | None = getattr(self.pool.engine, "queries", None)
        self.queries = [
            query for query in bank.queries if brought is None or query.id in brought
        ]
        self.kind: GraderKind = config.grader if kind.plays_back else "model"
        self._tools = bank.index.keys() if brought is not None else None
        self.prompts = VerifyPrompts(bank, domain, seed)
        self.labels: dict[int, tuple[Label, ...]] = {}
        self.rejected: dict[int, Rejection] = {}
        self.failed: dict[int, Rejection] = {}
        self._candidates = candidates
        self._failures = FailuresInARow(self.pool)

    def make_grading(self, number: int) -> Grading:
        """The grading of a request whose reply has come."""
        query = self.queries[number]
        key = self._candidates[query.id][0].key if self._candidates[query.id] else ""
        return make_grading(
            query.id,
            query.query,
            self.kind,
            self.pool.engine.model,
            self.labels[number],
            key,
        )

    @property
    def ended(self) -> int:
        """Of how many requests the reply has come, or the call has failed."""
        return len(self.labels) + len(self.rejected) + len(self.failed)

    async def grade(self, number: int) -> None:
        """Ask for the grades of a request, and read what comes.

        Raises:
            EngineError: no call of this run can succeed.
            Missing: the reply comes with a later round.
            Stopped: the run is ending, and the call was not made.
            ToolbankError: the journal can't be written.
        """
        query = self.queries[number]
        candidates = self._candidates[query.id]
        request = self.prompts.ask(query, candidates)
        try:
            with self.pool.attempt() as ask:
                asked = await ask(request)
        except EngineError as error:
            if error.fatal:
                raise
            self._failures.add(error)
            self.failed[number] = Rejection(error.reason, str(error))
            return
        self._failures.end()
        tools = self._tools or {row.tool for row in candidates}
        found = read_grades(asked.reply, query.id, tools)
        if isinstance(found, Rejection):
            self.rejected[number] = found
        else:
            self.labels[number] = found


async def grade(grader: Grader) -> Grades:
    """Have all requests graded, as far as the journal doesn't hold the replies.

    Raises:
        ToolbankError: the endpoint is down or refuses, or the run was interrupted.
    """
    pool, total = grader.pool, len(grader.queries)
    numbers = iter(range(total))
    carrier = Carrier(pool, grader.grade, lambda: next(numbers, None))

    def progress() -> tuple[int, int]:
        return grader.ended, len(grader.rejected) + len(grader.failed)

    async with pool.working():
        with show_progress("requests", progress, pool, total):
            waiting = await carrier.work()
    if pool.stop.cause == "interrupt":
        raise Interrupted(
            f"stopped in verify, with {grader.ended:,} of {total:,} requests graded. Every reply "
            f"that came is kept ({describe_spent(pool)}); the same command goes on from there."
        )
    lost = sorted((grader.rejected | grader.failed).items())
    reasons = Counter(why.reason for _, why in lost)
    gone = total - len(grader.labels) - len(grader.rejected)
    problems = [f"stopped early: {pool.stop.message}"] * (pool.stop.cause == "budget")
    if reasons:
        said = ", ".join(f"{why} {n:,}" for why, n in sorted(reasons.items()))
        problems.append(f"not graded, so that their labels stay as they were: {said}")
    if waiting:
        wait = count(carrier.pending, "request waits", "requests wait")
        problems.append(f"{wait} for grades")
    return Grades(
        [grader.make_grading(n) for n in sorted(grader.labels)],
        {
            "model": pool.engine.model,
            "prompt_hash": grader.prompts.hash,
            "not_graded": [
                {
                    "query": grader.queries[n].id,
                    "reason": why.reason,
                    "detail": why.detail,
                }
                for n, why in lost
            ],
        },
        describe_spent(pool),
        f"grades of {gone:,} of {count(total, 'request')}" if gone else "",
        (*problems, *note_unpriced(pool, grader.config.section)),
        waiting,
        EarlyEnd(pool.stop.message, pool.stop.option) if pool.stop else None,
    )
