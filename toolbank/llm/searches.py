"""Requests of searches to a model, answered from a journal of their own where it has the reply."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from toolbank.llm.chat import ChatReply, ChatRequest, Rejection
from toolbank.llm.config import SearchModelConfig
from toolbank.llm.engines import find_engine
from toolbank.llm.engines.kind import EngineContext
from toolbank.llm.journal import Journal, copy_journal, is_journal
from toolbank.llm.step import Step, StepAnswer, StepResult, StepRun, run_step
from toolbank.system.errors import ReplyPendingError, ToolbankError
from toolbank.system.numbers import count

# By the journals: each has one writer.
_ASKING: WeakValueDictionary[Path, Lock] = WeakValueDictionary()
_CHOOSING = Lock()

T = TypeVar("T")


class SearchStep(Step[T, list[StepAnswer[T]]]):
    """The requests of searches; the result has the answer to each, in order."""

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
        """Read a reply."""
        return self._read(number, reply)

    def fold(self, run: StepRun) -> StepResult[list[StepAnswer[T]]]:
        """List all answers.

        Raises:
            ToolbankError: a budget was spent before.
        """
        if self.total > len(self.answers) and not run.waiting:
            raise self.explain_interrupt(run)
        return StepResult([one for _, one in sorted(self.answers.items())], "")

    def explain_interrupt(self, run: StepRun) -> ToolbankError:
        """Say how many are not answered, and how to continue."""
        left, why = self.total - len(self.answers), run.pool.stop.message
        return _explain_unanswered(left, self.total, why, self.config)


def ask_searches(
    requests: Sequence[ChatRequest],
    read: Callable[[int, ChatReply], T | Rejection],
    config: SearchModelConfig,
) -> list[StepAnswer[T]]:
    """Answer each request, and read its reply with `read`; it gets the request's number.

    A request is sent once, ever: its reply is in the journal `config.replies` before it is used,
    and later searches find it there.

    Raises:
        InputError: the engine can't be used.
        Waiting: the engine answers in rounds, and this one is still to come.
        ToolbankError: the calls were stopped by a budget, an interrupt, or an endpoint that is
            down or refuses; replies that came are kept.
    """
    with _CHOOSING:
        asking = _ASKING.setdefault(config.replies, Lock())
    # Threads that search with the same journal take turns.
    with asking:
        copy_replies(config)
        with Journal(config.replies) as journal:
            context = EngineContext(folder=journal.path.parent)
            result = run_step(
                config,
                journal,
                context,
                lambda _: SearchStep(requests, read, config),
                uvloop=False,
            )
    if result.waiting:
        raise ReplyPendingError(result.waiting)
    return result.value


def copy_replies(config: SearchModelConfig) -> None:
    """Copy the replies that an earlier version kept elsewhere into the run folder, once.

    Batch files that are not answered yet are copied with them.

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


def require_replies(
    answers: Sequence[StepAnswer[Any]], config: SearchModelConfig
) -> None:
    """Refuse to continue if a call got no reply.

    Raises:
        ToolbankError: how many did not, why the last one, and how to continue.
    """
    if failures := [one.failure for one in answers if one.failure]:
        why = failures[-1].detail
        raise _explain_unanswered(len(failures), len(answers), why, config)


def _explain_unanswered(
    left: int, of: int, why: str, config: SearchModelConfig
) -> ToolbankError:
    kept = f" {config.kept}; the same command goes on from there." if of > 1 else ""
    return ToolbankError(
        f"{left:,} of {count(of, 'request')} {'was' if left == 1 else 'were'} not answered: "
        f"{why.removesuffix('.')}.{kept}"
    )
