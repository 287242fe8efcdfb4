"""Ask a model the requests of a step: many at once, each reply read, all folded in their order."""

from __future__ import annotations

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
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from toolbank.llm.chat import ChatReply, ChatRequest, EngineError, Rejection
from toolbank.llm.config import EngineConfig
from toolbank.llm.pool import Missing, Pool
from toolbank.llm.progress import describe_spent, note_unpriced, show_progress
from toolbank.llm.stop import EarlyEnd
from toolbank.system.errors import Interrupted, ToolbankError
from toolbank.system.numbers import count

T = TypeVar("T")
R = TypeVar("R")

UNUSABLE_AT_FIRST = 50
"""A model whose first replies are all unusable will hardly do better."""

# So many attempts in a row: refused, and failed in ways that may pass.
_REFUSED = 10
_FAILED = 100


@dataclass(frozen=True)
class StepAnswer(Generic[T]):
    """What an attempt came to: what was read from its replies, or why there is nothing.

    It `failed` where a call got no reply. `keys` are those of its calls in the journal, and `model`
    is the one that replied last.
    """

    value: T | Rejection
    keys: tuple[str, ...] = ()
    model: str = ""
    failed: bool = False

    @property
    def failure(self) -> Rejection | None:
        """Why a call got no reply, if that is how it ended."""
        return self.value if self.failed and isinstance(self.value, Rejection) else None


@dataclass(frozen=True)
class FollowUp(Generic[T]):
    """A further request of an attempt, which follows from the reply before, and how its reply is read."""

    request: ChatRequest
    read: Callable[[ChatReply], T | Rejection | FollowUp[T]]


SAMPLED = 20
"""How many attempts a forecast of a step's calls is computed from."""


@dataclass(frozen=True)
class SampleCalls:
    """Some calls of a step: requests, and answers as long as those to come.

    `step` is what the journal calls them, and `noun` what people are told that one is.
    """

    step: str
    requests: Sequence[ChatRequest]
    answers: Sequence[Mapping[str, Any]]
    noun: str = "call"


@dataclass(frozen=True)
class StepSample:
    """What a step is going to ask in `total` attempts.

    `first` are requests to look up in the journal, `is_all` where they are those of all attempts.
    Where one of them has a reply, or by `is_same`, the journal's other replies count, too.
    """

    total: int
    calls: Sequence[SampleCalls]
    first: Sequence[ChatRequest] = ()
    is_all: bool = False
    is_same: bool = False


@dataclass(frozen=True)
class StepResult(Generic[R]):
    """What was made of all answers, and for people how it went.

    `lacks` says what is missing, where another run may get further. `failed` has the reasons of
    failed calls, such as "http-500 3". `waiting` is not empty where replies come with a later
    round: what the user has to do until then; `so_far` is what there is before, such as "3
    queries". `ended_early` tells of a budget that is spent.
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
    """One kind of question to a model: its requests, how a reply is read, what all come to.

    The result depends on the answers alone, not on when each came in. `what` is counted in the
    progress line, and `done` says what becomes of it. An attempt makes up to `most_calls`, as its replies ask for.
    """

    what: ClassVar[str] = "requests"
    done: ClassVar[str] = "answered"
    most_calls: ClassVar[int] = 1

    def __init__(self, config: EngineConfig, total: int) -> None:
        self.config = config
        self.total = total
        self.answers: dict[int, StepAnswer[T]] = {}
        self._numbers = iter(range(total))
        self._lost = 0

    @abstractmethod
    def request(self, number: int) -> ChatRequest:
        """What is asked first in an attempt.

        Raises:
            InputError: the user's own template is broken.
        """

    @abstractmethod
    def read(self, number: int, reply: ChatReply) -> T | Rejection | FollowUp[T]:
        """What the reply says, why it can't be used, or what is asked next.

        Nothing that it can hold raises.
        """

    @abstractmethod
    def fold(self, run: StepRun) -> StepResult[R]:
        """What there is of all answers, in the order of their numbers.

        Raises:
            ToolbankError: nothing can be made of them.
        """

    def sample(self, count: int) -> list[int]:
        """The numbers of a few attempts, evenly spread over all."""
        return sorted({place * self.total // count for place in range(count)})

    def sample_calls(self) -> StepSample:
        """All first requests, for a forecast, where each attempt makes one call."""
        requests = [self.request(number) for number in range(self.total)]
        (name,) = self.config.call_steps
        calls = SampleCalls(name, requests[:SAMPLED], [self.sample_answer()])
        return StepSample(self.total, (calls,), requests, is_all=True)

    def sample_answer(self) -> Mapping[str, Any]:
        """An answer as long as those to come."""
        return {}

    def title(self, number: int) -> str:
        """What an attempt is called where all of it is shown."""
        return f"attempt {number}"

    def describe(self, answer: StepAnswer[T]) -> str:
        """How an attempt ended, a line or more."""
        value = answer.value
        if not isinstance(value, Rejection):
            return f"accepted: {value}"
        outcome = "failed" if answer.failed else "rejected"
        return describe_ending(outcome, value.reason, value.detail)

    def choose(self, run: StepRun) -> int | None:  # noqa: ARG002
        """The number of the next attempt, or None where none is to begin now."""
        return next(self._numbers, None)

    def accept(self, number: int, answer: StepAnswer[T], run: StepRun) -> None:  # noqa: ARG002
        """Take the answer of an attempt; they come in any order.

        Raises:
            ToolbankError: there is no use in going on.
        """
        self.answers[number] = answer
        self._lost += isinstance(answer.value, Rejection)

    def progress(self) -> tuple[int, int]:
        """How much is done, and how much of it is lost."""
        return len(self.answers), self._lost

    @property
    def failures(self) -> Counter[str]:
        """How many calls got no reply, by reason."""
        failures = filter(None, (one.failure for one in self.answers.values()))
        return Counter(failure.reason for failure in failures)

    def explain_interrupt(self, run: StepRun) -> ToolbankError:
        """What is kept after Ctrl-C, and how to go on."""
        said = f"{self.progress()[0]:,} of {self.total:,} {self.what} {self.done}"
        return Interrupted(run.explain_interrupt(said))


class StepRun:
    """The attempts of a step under way; those that end go to the step.

    One whose reply comes with a later round is made again after it: `missing` are those, and
    `pending` is how many wait so at the end. `open` is how many are under way, and `begun` how
    many there were. When the run is stopped, attempts end with the call that is in flight, or by
    a budget with their last; those that got no end are left for the next run. `waiting` is what
    the user has to do before the pending ones, or "".
    """

    def __init__(self, step: Step[Any, Any], pool: Pool) -> None:
        self.pool = pool
        self.missing: dict[int, Missing] = {}
        self.open = 0
        self.begun = 0
        self.pending = 0
        self.waiting = ""
        self.last_failure = ""
        self._step = step
        self._again: deque[int] = deque()
        self._failed_in_a_row = 0

    async def work(self) -> None:
        """Make all attempts, round by round where replies come so.

        Raises:
            ToolbankError: an attempt raised it, or a round can't be sent.
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

    def explain_interrupt(self, said: str) -> str:
        """What is kept after Ctrl-C, where so much is done."""
        return (
            f"stopped in {self._step.config.section}, with {said}. Every reply that came is kept "
            f"({describe_spent(self.pool)}); the same command goes on from there."
        )

    def explain_nothing(
        self, made: str, tried: str, reasons: Iterable[str], look: Iterable[str]
    ) -> str:
        """Why nothing of what is to be made can be used, such as "a query", and where to look."""
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
                "Replies that are in the journal are not asked for again: if the endpoint is "
                "mended since, give another --out."
            )
        return "\n".join(lines)

    def _begin(self) -> Coroutine[Any, Any, None] | None:
        if self._again:
            return self._start(self._again.popleft())
        number = None if self.pool.stop else self._step.choose(self)
        if number is None:
            return None
        self.begun += 1
        return self._start(number)

    def _start(self, number: int) -> Coroutine[Any, Any, None]:
        self.open += 1
        return self._carry(number)

    async def _carry(self, number: int) -> None:
        try:
            self._step.accept(number, await self.attempt(number), self)
        except Missing as missing:
            self.missing[number] = missing
        finally:
            self.open -= 1

    async def attempt(self, number: int) -> StepAnswer[Any]:
        """Ask, and read what comes, until there is an answer.

        Raises:
            EngineError: no call of this run can succeed.
            Missing: a reply comes with a later round; then the attempt can be made again.
            Stopped: the run is ending, and a call was not made.
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
        """Stop where call after call is refused, or fails however often it is tried."""
        self._failed_in_a_row += 1
        most = self.pool.limit.now + _FAILED if error.retryable else _REFUSED
        if self._failed_in_a_row >= most:
            advice = (
                "run the same command again when the endpoint answers."
                if error.retryable
                else "look at what it is asked and what it says, by `toolbank preview RECIPE`, "
                "and change `model`, `max_tokens` or `parameters`."
            )
            self.pool.stop.fail(
                ToolbankError(
                    f"{self._failed_in_a_row} attempts failed one after another, the last with: "
                    f"{error} The replies that came are kept; {advice}"
                )
            )


def describe_ending(outcome: str, reason: str, detail: str) -> str:
    """Such as "rejected: too-long (212 words, at most 150)"."""
    particulars = f" ({detail})" if detail else ""
    return f"{outcome}: {reason or 'nothing belongs together'}{particulars}"


async def ask_all(step: Step[T, R], pool: Pool) -> StepResult[R]:
    """Ask for all that the journal doesn't hold, and fold what came.

    Raises:
        Interrupted: the user stopped it; every reply that came is in the journal.
        ToolbankError: nothing can be used, the endpoint is down or refuses, or the journal can't be
            written. What was in flight has finished, and every reply is in the journal.
    """
    run, stop = StepRun(step, pool), pool.stop
    # A second Ctrl-C leaves the block where it is.
    async with pool.working():
        with show_progress(step.what, step.progress, pool, step.total):
            await run.work()
    if stop.cause == "interrupt":
        raise step.explain_interrupt(run)
    result = step.fold(run)
    return replace(
        result,
        message=_describe_wait(run.pending, result.so_far)
        if run.waiting
        else "; ".join(filter(None, (result.message, describe_spent(pool)))),
        problems=tuple(_list_problems(run, result, step.config)),
        waiting=run.waiting,
        ended_early=EarlyEnd(stop.message, stop.option) if stop else None,
    )


def _describe_wait(pending: int, so_far: str) -> str:
    """Such as "12 requests wait for their replies"."""
    wait = count(pending, "request waits", "requests wait")
    more = f"; {so_far} so far" if so_far else ""
    return f"{wait} for {'its reply' if pending == 1 else 'their replies'}{more}"


def _list_problems(
    run: StepRun, result: StepResult[Any], config: EngineConfig
) -> Iterator[str]:
    """What the user should know of what was made."""
    if run.pool.stop.cause == "budget":
        yield f"stopped early: {run.pool.stop.message}"
    yield from result.problems
    if result.failed:
        yield f"failed: {result.failed}"
        yield f"the last failure: {run.last_failure}"
    yield from note_unpriced(run.pool, config.section)
