"""Answer the requests of a step by a model: many at once, then fold the answers in order."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import (
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from tqdm import tqdm

from toolbank.llm.chat import ChatReply, ChatRequest, Engine, EngineError, Rejection
from toolbank.llm.config import EngineConfig
from toolbank.llm.engines import find_engine
from toolbank.llm.pool import MissingReplyError, Pool
from toolbank.llm.stop import EarlyEnd
from toolbank.system import aio
from toolbank.system.errors import InterruptedByUserError, ToolbankError
from toolbank.system.numbers import count
from toolbank.system.terminal import print_above_bars

if TYPE_CHECKING:
    from toolbank.llm.engines.kind import EngineContext
    from toolbank.llm.journal import Journal

C = TypeVar("C", bound=EngineConfig)
T = TypeVar("T")
R = TypeVar("R")

UNUSABLE_AT_FIRST = 50
"""If so many first replies are all unusable, the model will hardly do better."""

# The run stops after so many failed attempts in a row: refused ones, and ones that may pass later.
_MOST_REFUSED = 10
_MOST_FAILED = 100


@dataclass(frozen=True)
class StepAnswer(Generic[T]):
    """The result of an attempt: the value read from its replies, or why there is none.

    `failed`: a call got no reply. `keys` are the journal keys of its calls; `model` is the one
    that replied last.
    """

    value: T | Rejection
    keys: tuple[str, ...] = ()
    model: str = ""
    failed: bool = False

    @property
    def failure(self) -> Rejection | None:
        """Why a call got no reply, if one did not."""
        return self.value if self.failed and isinstance(self.value, Rejection) else None


@dataclass(frozen=True)
class FollowUp(Generic[T]):
    """The next request of an attempt, and the function that reads its reply."""

    request: ChatRequest
    read: Callable[[ChatReply], T | Rejection | FollowUp[T]]


SAMPLE_SIZE = 20
"""The number of attempts that a forecast of a step's calls is computed from."""


@dataclass(frozen=True)
class SampleCalls:
    """Sample calls of a step: requests, and answers of typical length.

    `step` is their name in the journal, `noun` their name in messages.
    """

    step: str
    requests: Sequence[ChatRequest]
    answers: Sequence[Mapping[str, Any]]
    noun: str = "call"


@dataclass(frozen=True)
class StepSample:
    """A sample of the calls in a step's `total` attempts.

    `first` are requests to look up in the journal; `is_all`: they are those of all attempts. If
    one of them has a reply, or with `is_same`, the journal's other replies count too.
    """

    total: int
    calls: Sequence[SampleCalls]
    first: Sequence[ChatRequest] = ()
    is_all: bool = False
    is_same: bool = False


@dataclass(frozen=True)
class StepResult(Generic[R]):
    """The result of all answers, with messages for people.

    `lacks` says what is missing if another run can add it. `failed` has the reasons of failed
    calls, such as "http-500 3". `waiting` says what the user has to do if replies come with a
    later round, and `so_far` what there is until then, such as "3 queries". `ended_early` is set
    if a budget is spent.
    """

    value: R
    message: str
    lacks: str = ""
    problems: tuple[str, ...] = ()
    failed: str = ""
    so_far: str = ""
    waiting: str = ""
    ended_early: EarlyEnd | None = None


class Step(ABC, Generic[T, R]):
    """One kind of question to a model: its requests, how to read a reply, and the result of all.

    The result depends on the answers alone, not on their order. Messages count `what` and say
    what was `done` with it. An attempt makes up to `most_calls` calls.
    """

    what: ClassVar[str] = "requests"
    done: ClassVar[str] = "answered"
    most_calls: int = 1

    def __init__(self, config: EngineConfig, total: int) -> None:
        self.config = config
        self.total = total
        self.answers: dict[int, StepAnswer[T]] = {}
        self._numbers = iter(range(total))
        self._lost = 0

    @abstractmethod
    def request(self, number: int) -> ChatRequest:
        """Make the first request of an attempt.

        Raises:
            InputError: the user's own template is broken.
        """

    @abstractmethod
    def read(self, number: int, reply: ChatReply) -> T | Rejection | FollowUp[T]:
        """Read the reply: a value, why it can't be used, or the next request.

        No reply raises.
        """

    @abstractmethod
    def fold(self, run: StepRun) -> StepResult[R]:
        """Combine all answers, in the order of their numbers.

        Raises:
            ToolbankError: there is no usable answer.
        """

    def sample(self, count: int) -> list[int]:
        """Choose the numbers of a few attempts, evenly spread over all."""
        return sorted({place * self.total // count for place in range(count)})

    def sample_calls(self) -> StepSample:
        """Sample the calls for a forecast; each attempt makes one call."""
        requests = [self.request(number) for number in range(self.total)]
        (name,) = self.config.call_steps
        calls = SampleCalls(name, requests[:SAMPLE_SIZE], [self.sample_answer()])
        return StepSample(self.total, (calls,), requests, is_all=True)

    def sample_answer(self) -> Mapping[str, Any]:
        """An answer of typical length."""
        return {}

    def title(self, number: int) -> str:
        """The title of an attempt in a transcript."""
        return f"attempt {number}"

    def describe(self, answer: StepAnswer[T]) -> str:
        """Describe how an attempt ended, in a line or more."""
        value = answer.value
        if not isinstance(value, Rejection):
            return f"accepted: {value}"
        outcome = "failed" if answer.failed else "rejected"
        return describe_ending(outcome, value.reason, value.detail)

    def choose(self, run: StepRun) -> int | None:  # noqa: ARG002
        """Choose the number of the next attempt, or None if none can start now."""
        return next(self._numbers, None)

    def accept(self, number: int, answer: StepAnswer[T], run: StepRun) -> None:  # noqa: ARG002
        """Take the answer of an attempt; answers come in any order.

        Raises:
            ToolbankError: there is no point in continuing.
        """
        self.answers[number] = answer
        self._lost += isinstance(answer.value, Rejection)

    def progress(self) -> tuple[int, int]:
        """Count what is done, and how much of it is lost."""
        return len(self.answers), self._lost

    @property
    def failures(self) -> Counter[str]:
        """The number of calls without a reply, by reason."""
        failures = filter(None, (one.failure for one in self.answers.values()))
        return Counter(failure.reason for failure in failures)

    def explain_interrupt(self, run: StepRun) -> ToolbankError:
        """Say what is kept after Ctrl-C, and how to continue."""
        done = f"{self.progress()[0]:,} of {self.total:,} {self.what} {self.done}"
        return InterruptedByUserError(run.explain_interrupt(done))


class StepRun:
    """The attempts of a step; the step gets the answer of each.

    An attempt whose reply comes with a later round is repeated then: `missing` are those, and
    `pending` is how many of them are left at the end. `open` attempts are running, `begun` were
    started. When the run is stopped, attempts end with the call in flight, or with their last
    one if a budget is spent; unfinished ones are left to the next run. `waiting` says what the
    user has to do for the pending ones, or "".
    """

    def __init__(self, step: Step[Any, Any], pool: Pool) -> None:
        self.pool = pool
        self.missing: dict[int, MissingReplyError] = {}
        self.open = 0
        self.begun = 0
        self.pending = 0
        self.waiting = ""
        self.last_failure = ""
        self._step = step
        self._again: deque[int] = deque()
        self._failed_in_a_row = 0

    async def work(self) -> None:
        """Run all attempts, round by round if replies come in rounds.

        Raises:
            ToolbankError: an attempt failed, or a round can't be sent.
        """
        pool = self.pool
        while True:
            await pool.carry(self._begin)
            numbers = sorted(self.missing)
            requests = pool.choose_round([self.missing[n] for n in numbers])
            self.missing.clear()
            self._again.extend(numbers)
            todo = await pool.exchange(requests) if requests else None
            if todo != "":
                self.pending = len(requests) if todo else 0
                self.waiting = todo or ""
                return

    def explain_interrupt(self, done: str) -> str:
        """Say what is kept after Ctrl-C, with what is `done`."""
        return (
            f"stopped in {self._step.config.section}, with {done}. Every reply that came is kept "
            f"({_describe_spent(self.pool)}); the same command goes on from there."
        )

    def explain_nothing(
        self, made: str, tried: str, reasons: Iterable[str], look: Iterable[str]
    ) -> str:
        """Say why no reply gave `made`, such as "a query", and where to look."""
        stop = self.pool.stop
        if stop.cause == "budget":
            return (
                f"no {made.split()[-1]} was accepted before the run stopped: {stop.message}. The "
                "replies that came are kept."
            )
        lines = [
            f"None of {tried} gave {made} that can be used ({self.pool.counts.summary()}):",
            *(f"  {reason}" for reason in reasons),
            *look,
        ]
        if self.pool.asks_model:
            lines.append(
                "Replies in the journal are not requested again. If the endpoint is repaired "
                "since then, use another --out."
            )
        return "\n".join(lines)

    def _begin(self) -> Coroutine[Any, Any, None] | None:
        number: int | None
        if self._again:
            number = self._again.popleft()
        else:
            number = None if self.pool.stop else self._step.choose(self)
            if number is None:
                return None
            self.begun += 1
        self.open += 1
        return self._carry(number)

    async def _carry(self, number: int) -> None:
        try:
            self._step.accept(number, await self.attempt(number), self)
        except MissingReplyError as missing:
            self.missing[number] = missing
        finally:
            self.open -= 1

    async def attempt(self, number: int) -> StepAnswer[Any]:
        """Make the calls of an attempt until there is an answer.

        Raises:
            EngineError: no call of this run can succeed.
            MissingReplyError: a reply comes with a later round; repeat the attempt then.
            StoppedError: the run is ending, and a call was not made.
            ToolbankError: the journal can't be written.
        """
        value: Any = FollowUp(
            self._step.request(number), partial(self._step.read, number)
        )
        with self.pool.attempt(self._step.most_calls) as calls:
            try:
                while isinstance(value, FollowUp):
                    value = value.read(await calls.ask(value.request))
            except EngineError as error:
                self.last_failure = str(error)
                if error.fatal:
                    raise
                self._note_failure(error)
                lost = Rejection(error.reason, str(error))
                return StepAnswer(lost, tuple(calls.keys), failed=True)
        self._failed_in_a_row = 0
        return StepAnswer(value, tuple(calls.keys), calls.model)

    def _note_failure(self, error: EngineError) -> None:
        """Stop the run after too many failed attempts in a row."""
        self._failed_in_a_row += 1
        most = self.pool.limit.now + _MOST_FAILED if error.retryable else _MOST_REFUSED
        if self._failed_in_a_row >= most:
            advice = (
                "run the same command again when the endpoint answers."
                if error.retryable
                else "look at prompts and replies with `toolbank preview RECIPE`, and change "
                "`model`, `max_tokens` or `parameters`."
            )
            self.pool.stop.fail(
                ToolbankError(
                    f"{self._failed_in_a_row} attempts failed one after another, the last with: "
                    f"{error} The replies that came are kept; {advice}"
                )
            )


def describe_ending(outcome: str, reason: str, detail: str) -> str:
    """Describe an ending, such as "rejected: too-long (212 words, at most 150)"."""
    particulars = f" ({detail})" if detail else ""
    return f"{outcome}: {reason or 'nothing belongs together'}{particulars}"


async def ask_all(step: Step[T, R], pool: Pool) -> StepResult[R]:
    """Make all calls whose replies the journal lacks, and fold the answers.

    Raises:
        Interrupted: the user stopped it; every reply that came is in the journal.
        ToolbankError: nothing can be used, the endpoint is down or refuses, or the journal can't be
            written. Calls in flight have finished, and every reply is in the journal.
    """
    run, stop = StepRun(step, pool), pool.stop
    # A second Ctrl-C leaves the block where it is.
    async with pool.working():
        with _show_progress(step.what, step.progress, pool, step.total):
            await run.work()
    if stop.cause == "interrupt":
        raise step.explain_interrupt(run)
    result = step.fold(run)
    if run.waiting:
        wait = "request waits for its reply", "requests wait for their replies"
        so_far = result.so_far and f"{result.so_far} so far"
        parts = count(run.pending, *wait), so_far
    else:
        parts = result.message, _describe_spent(pool)
    return replace(
        result,
        message="; ".join(filter(None, parts)),
        problems=tuple(_list_problems(run, result, step.config)),
        waiting=run.waiting,
        ended_early=EarlyEnd(stop.message, stop.option) if stop else None,
    )


def run_step(
    config: C,
    journal: Journal,
    context: EngineContext,
    make_step: Callable[[Engine], Step[T, R]],
    *,
    uvloop: bool = True,
) -> StepResult[R]:
    """Run a step with the engine of a configuration, from code without an event loop.

    Raises:
        InputError: the engine can't be used, or as `make_step`.
        ToolbankError: as of `ask_all`.
    """
    pool = Pool(find_engine(config), config, journal, context)
    return aio.run(ask_all(make_step(pool.engine), pool), uvloop=uvloop)


def _list_problems(
    run: StepRun, result: StepResult[Any], config: EngineConfig
) -> Iterator[str]:
    """List what the user should know about the result."""
    if run.pool.stop.cause == "budget":
        yield f"stopped early: {run.pool.stop.message}"
    yield from result.problems
    if result.failed:
        yield f"failed: {result.failed}"
        yield f"the last failure: {run.last_failure}"
    yield from _note_unpriced(run.pool, config.section)


_REFRESH_S = 0.5
_BAR = "{desc} {n_fmt}/{total_fmt} {bar} ETA {remaining}{postfix}"


@contextmanager
def _show_progress(
    what: str,
    progress: Callable[[], tuple[int, int]],
    pool: Pool,
    total: int | None,
) -> Iterator[None]:
    """Show a progress bar of the calls, twice a second, until the block ends.

    There is none off a terminal, or for a total of 1: a line says once that no reply comes.
    `progress` returns how much of `what`, such as "queries", is done, and how much of that is not
    accepted.
    """
    with tqdm(
        desc=what,
        total=total,
        bar_format=_BAR,
        mininterval=0,
        dynamic_ncols=True,
        leave=False,
        disable=total == 1 or None,
    ) as bar:
        loop = asyncio.get_running_loop()
        timer = None

        def watch() -> None:
            nonlocal timer
            if said := pool.describe_silence():
                print_above_bars(said)
            else:
                timer = loop.call_later(_REFRESH_S, watch)

        def update() -> None:
            nonlocal timer
            done, lost = progress()
            seconds = bar.format_dict["elapsed"]
            details = _list_details(pool, lost, seconds)
            bar.set_postfix_str(", ".join(details), refresh=False)
            bar.update(done - bar.n)
            bar.refresh()
            timer = loop.call_later(_REFRESH_S, update)

        watch() if bar.disable else update()
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()


def _list_details(pool: Pool, lost: int, seconds: float) -> Iterator[str]:
    """List what follows the bar, the most important first: a narrow terminal cuts the end."""
    counts = pool.counts
    if hold := (
        ("finishing" if pool.stop else pool.admission.describe_hold())
        or pool.describe_silence()
    ):
        yield hold
    yield f"{lost:,} not accepted"
    yield f"{pool.admission.in_flight}/{pool.limit.now} in flight"
    yield f"{counts.asked / max(seconds, 1):.1f} replies/s"
    if pool.budget.dollars is not None:
        estimated = " estimated" if pool.budget.is_estimated else ""
        yield f"${pool.budget.dollars:,.2f}{estimated}"
    sent, received = counts.prompt_tokens, counts.completion_tokens
    if sent or received:
        estimated = " estimated" if counts.estimated else ""
        yield f"{_short(sent)} tokens in, {_short(received)} out{estimated}"


def _short(number: int) -> str:
    return str(tqdm.format_sizeof(number)) if number >= 1000 else str(number)


def _describe_spent(pool: Pool) -> str:
    """Summarize the calls of a command, with the dollars spent in the run folder if known."""
    summary, dollars = pool.counts.summary(), pool.budget.dollars
    if dollars is None:
        return summary
    digits = 2 if dollars >= 0.1 or not dollars else 4
    estimated = ", estimated" if pool.budget.is_estimated else ""
    return f"{summary}; ${dollars:,.{digits}f} in all{estimated}"


def _note_unpriced(pool: Pool, section: str) -> Iterator[str]:
    """Note that calls cost something, and that the price is unknown."""
    counts = pool.counts
    if pool.budget.dollars is None and counts.prompt_tokens + counts.completion_tokens:
        yield (
            f"cost unknown: the price of the model is not known. Set {section}.price, in dollars "
            "per million tokens"
        )
