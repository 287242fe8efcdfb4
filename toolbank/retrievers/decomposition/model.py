"""Splitting requests into subtasks by a language model (arXiv 2312.10332, section 4.2)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from toolbank.chat.chat import (
    ChatReply,
    ChatRequest,
    EngineError,
    Message,
)
from toolbank.journal import Journal
from toolbank.llm.engines import find_engine
from toolbank.llm.engines.kind import EngineContext
from toolbank.llm.json_answer import Rejection, check_finish, find_answer
from toolbank.llm.pool import Pool
from toolbank.llm.templates import PromptTemplate
from toolbank.retrievers.decomposition.config import TEMPLATE
from toolbank.system import aio
from toolbank.system.errors import ToolbankError
from toolbank.system.numbers import count
from toolbank.system.terminal import print_above_bars

if TYPE_CHECKING:
    from toolbank.retrievers.decomposition.config import DecomposeConfig

_KEY = "subtasks"
_ASKING = Lock()
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {_KEY: {"type": "array", "items": {"type": "string"}}},
    "required": [_KEY],
    "additionalProperties": False,
}


def ask_subtasks(texts: Sequence[str], config: DecomposeConfig) -> list[list[str]]:
    """The subtasks of each request, at least one.

    A request is asked for once, ever: its reply is in the journal `config.replies` before it
    counts, and found there again. One whose reply is no list of subtasks stays whole; how many
    there are is told.

    Raises:
        InputError: the engine or the prompt can't be used.
        ToolbankError: calls failed; what was answered is kept, and a new search asks for the rest.
    """
    distinct = list(dict.fromkeys(texts))
    # A journal is one writer's; threads that search take turns.
    with _ASKING, Journal(config.replies) as journal:
        replies = aio.run(_ask_all(distinct, config, journal))
    unread: Counter[str] = Counter()
    parts: dict[str, list[str]] = {}
    for text, reply in zip(distinct, replies, strict=True):
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
    answer = check_finish(reply) or find_answer(reply.text, [_KEY])
    if isinstance(answer, Rejection):
        return answer
    found = answer[_KEY]
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        return Rejection("wrong-schema", f"{_KEY} is no list of texts")
    subtasks = [item.strip() for item in found if item.strip()]
    return subtasks or Rejection("empty")


async def _ask_all(
    texts: Sequence[str], config: DecomposeConfig, journal: Journal
) -> list[ChatReply]:
    pool = Pool(find_engine(config), config, journal, EngineContext())
    template = PromptTemplate(TEMPLATE)
    replies: dict[int, ChatReply] = {}
    failures: list[str] = []

    async def split(number: int, text: str) -> None:
        with pool.attempt() as ask:
            try:
                replies[number] = (await ask(make_request(template, text))).reply
            except EngineError as error:
                failures.append(str(error))

    waiting = (split(number, text) for number, text in enumerate(texts))
    async with pool.working():
        await pool.carry(lambda: next(waiting, None))
    if len(replies) < len(texts):
        why = (failures[-1] if failures else pool.stop.message).removesuffix(".")
        left = len(texts) - len(replies)
        raise ToolbankError(
            f"{left:,} of {count(len(texts), 'request')} {'was' if left == 1 else 'were'} not "
            f"split into subtasks: {why}. The replies that came are in {config.replies}; the same command "
            "goes on from there."
        )
    return [replies[number] for number in range(len(texts))]


def make_request(template: PromptTemplate, text: str) -> ChatRequest:
    """Ask for the subtasks of a request; its number is made of its text.

    Raises:
        InputError: the user's prompts/decompose.j2 is broken.
    """
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return ChatRequest(
        attempt=int(digest[:12], 16),
        step="decompose",
        messages=(Message("user", template.render(request=text)),),
        schema=_SCHEMA,
    )
