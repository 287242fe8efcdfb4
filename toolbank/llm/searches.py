"""What searches ask: many requests, each answered by a journal of their own or else by a model."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from toolbank.llm.chat import ChatReply, ChatRequest, Rejection
from toolbank.llm.config import SearchModelConfig
from toolbank.llm.engines import find_engine
from toolbank.llm.engines.kind import EngineContext
from toolbank.llm.journal import Journal, copy_journal, is_journal
from toolbank.llm.pool import Pool
from toolbank.llm.step import Step, StepAnswer, StepResult, StepRun, ask_all
from toolbank.system import aio
from toolbank.system.errors import ToolbankError, Waiting
from toolbank.system.numbers import count

_ASKING = Lock()

T = TypeVar("T")


class SearchStep(Step[T, list[StepAnswer[T]]]):
    """The requests of searches; the result is the answer to each, in their order."""

    config: SearchModelConfig

    def __init__(
        self,
        requests: Sequence[ChatRequest],
        read: Callable[[int, ChatReply], T | Rejection],
        config: SearchModelConfig,
    ) -> None:
        super().__init__(config, len(requests))
        self._requests = requests
        self._read = read

    def request(self, number: int) -> ChatRequest:
        """One of the requests."""
        return self._requests[number]

    def read(self, number: int, reply: ChatReply) -> T | Rejection:
        """What a reply says."""
        return self._read(number, reply)

    def fold(self, run: StepRun) -> StepResult[list[StepAnswer[T]]]:
        """All answers.

        Raises:
            ToolbankError: a budget was spent before.
        """
        if self.total > len(self.answers) and not run.waiting:
            raise self.explain_interrupt(run)
        return StepResult([one for _, one in sorted(self.answers.items())], "")

    def explain_interrupt(self, run: StepRun) -> ToolbankError:
        """How many are not answered, and how to go on."""
        left, why = self.total - len(self.answers), run.pool.stop.message
        return _explain_unanswered(left, self.total, why, self.config.replies)


def ask_searches(
    requests: Sequence[ChatRequest],
    read: Callable[[int, ChatReply], T | Rejection],
    config: SearchModelConfig,
) -> list[StepAnswer[T]]:
    """What was read from the reply to each request, by its number, or why there is nothing.

    A request is asked for once, ever: its reply is in the journal `config.replies` before it
    counts, and found there again. Of several, the terminal shows how far they are.

    Raises:
        InputError: the engine can't be used.
        Waiting: the engine answers in rounds, and this one is still to come.
        ToolbankError: the calls were stopped, by a budget, an interrupt or an endpoint that is
            down or refuses; what was answered is kept.
    """
    # A journal is one writer's; threads that search take turns.
    with _ASKING:
        bring_replies(config)
        with Journal(config.replies) as journal:
            context = EngineContext(folder=journal.path.parent)
            pool = Pool(find_engine(config), config, journal, context)
            result = aio.run(ask_all(SearchStep(requests, read, config), pool))
    if result.waiting:
        raise Waiting(result.waiting)
    return result.value


def bring_replies(config: SearchModelConfig) -> None:
    """Copy the replies that an earlier version kept elsewhere to where they belong, once.

    Files of batches that are not answered yet come with them.

    Raises:
        ToolbankError: they can't be copied.
    """
    source, target = config.known_replies, config.replies
    if source == target or not is_journal(source):
        return
    copy_journal(source, target)
    batch, into = source.parent / "batch", target.parent / "batch"
    if find_engine(config).in_rounds and batch.is_dir() and not into.exists():
        shutil.copytree(batch, into)


def demand_replies(answers: Sequence[StepAnswer[Any]], replies: Path) -> None:
    """Refuse to go on where a call got no reply.

    Raises:
        ToolbankError: how many did, why the last one, and how to go on.
    """
    if failures := [one.failure for one in answers if one.failure]:
        why = failures[-1].detail
        raise _explain_unanswered(len(failures), len(answers), why, replies)


def _explain_unanswered(left: int, of: int, why: str, replies: Path) -> ToolbankError:
    """That `left` of so many requests got no reply, why, and how to go on."""
    return ToolbankError(
        f"{left:,} of {count(of, 'request')} {'was' if left == 1 else 'were'} not answered: "
        f"{why.removesuffix('.')}. The replies that came are in {replies}; the same command goes "
        "on from there."
    )
