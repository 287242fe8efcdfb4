"""What searches ask: many requests, each answered by a journal of their own or else by a model."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from threading import Lock

from toolbank.llm.chat import ChatReply, ChatRequest, EngineError
from toolbank.llm.config import SearchModelConfig
from toolbank.llm.engines import find_engine
from toolbank.llm.engines.kind import EngineContext
from toolbank.llm.journal import Journal, copy_journal, is_journal
from toolbank.llm.pool import Carrier, FailuresInARow, Pool
from toolbank.llm.progress import show_progress
from toolbank.system import aio
from toolbank.system.errors import ToolbankError
from toolbank.system.numbers import count

_ASKING = Lock()


class Waiting(ToolbankError):  # noqa: N818 - nothing is amiss
    """Replies come with a later round; the message is what the user has to do until then."""


def ask_all(
    requests: Sequence[ChatRequest], config: SearchModelConfig
) -> list[ChatReply | EngineError]:
    """The reply to each request, or the error with which its call failed for good.

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
            return aio.run(_ask_all(requests, config, journal))


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


def explain_unanswered(left: int, of: int, why: str, replies: Path) -> ToolbankError:
    """That `left` of so many requests got no reply, why, and how to go on."""
    return ToolbankError(
        f"{left:,} of {count(of, 'request')} {'was' if left == 1 else 'were'} not answered: "
        f"{why.removesuffix('.')}. The replies that came are in {replies}; the same command goes "
        "on from there."
    )


async def _ask_all(
    requests: Sequence[ChatRequest], config: SearchModelConfig, journal: Journal
) -> list[ChatReply | EngineError]:
    context = EngineContext(folder=journal.path.parent)
    pool = Pool(find_engine(config), config, journal, context)
    answers: dict[int, ChatReply | EngineError] = {}
    failures = FailuresInARow(pool)
    numbers = iter(range(len(requests)))

    async def answer(number: int) -> None:
        try:
            with pool.attempt() as ask:
                answers[number] = (await ask(requests[number])).reply
        except EngineError as error:
            if error.fatal:
                raise
            failures.add(error)
            answers[number] = error
        else:
            failures.end()

    def count_answers() -> tuple[int, int]:
        failed = sum(isinstance(one, EngineError) for one in answers.values())
        return len(answers), failed

    carrier = Carrier(pool, answer, lambda: next(numbers, None))
    shown = (
        show_progress("requests", count_answers, pool, len(requests), "not answered")
        if len(requests) > 1
        else nullcontext()
    )
    # A second Ctrl-C leaves the block where it is.
    todo = ""
    async with pool.working():
        with shown:
            todo = await carrier.work()
    if todo:
        raise Waiting(todo)
    if left := len(requests) - len(answers):
        why = pool.stop.message
        raise explain_unanswered(left, len(requests), why, config.replies)
    return [answers[number] for number in range(len(requests))]
