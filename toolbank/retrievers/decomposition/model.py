"""Splitting requests into subtasks by a language model (arXiv 2312.10332, section 4.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from toolbank.llm.chat import (
    ChatReply,
    EngineError,
    Rejection,
    check_finish,
    find_answer,
)
from toolbank.llm.searches import ask_all, explain_unanswered
from toolbank.retrievers.decomposition.prompt import KEY, make_request
from toolbank.system.numbers import count
from toolbank.system.terminal import print_above_bars

if TYPE_CHECKING:
    from toolbank.llm.templates import PromptTemplate
    from toolbank.retrievers.decomposition.config import DecomposeConfig


def ask_subtasks(
    texts: Sequence[str], config: DecomposeConfig, template: PromptTemplate
) -> list[list[str]]:
    """The subtasks of each request, at least one.

    One whose reply is no list of subtasks stays whole; how many there are is told.

    Raises:
        InputError: the engine or the prompt can't be used.
        ToolbankError: calls failed or are still to be answered; what was answered is kept, and a
            new search asks for the rest.
    """
    distinct = list(dict.fromkeys(texts))
    replies = ask_all([make_request(template, text) for text in distinct], config)
    answered = [reply for reply in replies if isinstance(reply, ChatReply)]
    if failures := [reply for reply in replies if isinstance(reply, EngineError)]:
        failed, why = len(failures), str(failures[-1])
        raise explain_unanswered(failed, len(replies), why, config.replies)
    unread: Counter[str] = Counter()
    parts: dict[str, list[str]] = {}
    for text, reply in zip(distinct, answered, strict=True):
        found = read_subtasks(reply)
        if isinstance(found, Rejection):
            unread[found.reason] += 1
            found = [text]
        parts[text] = found
    if unread:
        why = ", ".join(f"{reason} {number:,}" for reason, number in unread.items())
        stay = "stays" if unread.total() == 1 else "stay"
        print_above_bars(
            f"{unread.total():,} of {count(len(distinct), 'request')} {stay} whole, because the "
            f"model gave no list of subtasks ({why})."
        )
    return [parts[text] for text in texts]


def read_subtasks(reply: ChatReply) -> list[str] | Rejection:
    """The subtasks that a reply names, or why it names none."""
    answer = check_finish(reply) or find_answer(reply.text, [KEY])
    if isinstance(answer, Rejection):
        return answer
    found = answer[KEY]
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        return Rejection("wrong-schema", f"{KEY} is no list of texts")
    subtasks = [item.strip() for item in found if item.strip()]
    return subtasks or Rejection("empty")
