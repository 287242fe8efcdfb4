"""Replies that come in rounds: collecting what the journal lacks, and waiting for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from toolbank.llm.tokens import estimate_prompt

if TYPE_CHECKING:
    from toolbank.chat.chat import ChatRequest
    from toolbank.llm.engines.kind import Filler
    from toolbank.llm.limits.budget import Budget
    from toolbank.llm.limits.stop import EarlyEnd, Stop


class Missing(Exception):  # noqa: N818 - no error: the reply comes with a later round
    """The journal lacks a reply, which comes with a later round.

    `calls` is how many the attempt needs, this one included.
    """

    def __init__(self, request: ChatRequest, calls: int) -> None:
        super().__init__()
        self.request = request
        self.calls = calls


def choose(
    missing: Sequence[Missing], filler: Filler, budget: Budget, identity: str
) -> tuple[list[ChatRequest], EarlyEnd | None]:
    """The requests that a budget lets through, in their order, and why it stops the others.

    Those that were sent before cost nothing more. The first that has no room ends the choice, so
    that what is missing in the end is at the end.
    """
    sent = [filler.holds(one.request.key(identity)) for one in missing]
    for one, is_sent in zip(missing, sent, strict=True):
        if is_sent:
            budget.hold(one.calls)
    passed: list[ChatRequest] = []
    why: EarlyEnd | None = None
    for one, is_sent in zip(missing, sent, strict=True):
        if not (is_sent or why) and not budget.reserve(
            one.calls, estimate_prompt(one.request)
        ):
            why = budget.explain(one.calls)
        if is_sent or not why:
            passed.append(one.request)
    return passed, why


async def exchange(
    filler: Filler, requests: Sequence[ChatRequest], stop: Stop
) -> str | None:
    """What the user has to do, "" where replies came, and None where the run is stopped meanwhile.

    Raises:
        ToolbankError: the round can't be sent.
    """
    exchanging = asyncio.create_task(filler.exchange(requests))
    stop.listen(exchanging.cancel)
    try:
        return await exchanging
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if not stop or (task is not None and task.cancelling()):
            raise
        return None
