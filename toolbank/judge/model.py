"""A language model as the judge: what it is asked, and how its answer is read."""

from __future__ import annotations

from toolbank.judge.config import Criterion
from toolbank.llm.chat import (
    ChatReply,
    ChatRequest,
    Message,
    Rejection,
    check_finish,
    find_answer,
)
from toolbank.llm.templates import PromptTemplate
from toolbank.system.terminal import one_line

TEMPLATE = "judge.j2"
_WINNERS = {"a": "A", "b": "B", "tie": "tie"}
_EXCERPT = 40


def make_request(
    template: PromptTemplate, number: int, criterion: Criterion, first: str, second: str
) -> ChatRequest:
    """Ask which of two texts is better by one criterion; `number` is the pair's.

    Raises:
        InputError: the user's prompts/judge.j2 is broken.
    """
    prompt = template.render(criterion=criterion, first=first, second=second)
    return ChatRequest(
        attempt=number,
        step="judge",
        messages=(Message("user", prompt),),
        schema=template.schema,
    )


def read_winner(reply: ChatReply) -> str | Rejection:
    """Read "A", "B" or "tie" from a reply, or why it says no such thing."""
    answer = check_finish(reply) or find_answer(reply.text, ["winner"])
    if isinstance(answer, Rejection):
        return answer
    said = str(answer["winner"]).strip()
    winner = _WINNERS.get(said.lower())
    return winner or Rejection(
        "wrong-schema", f"the winner is {one_line(said, _EXCERPT)!r}"
    )
