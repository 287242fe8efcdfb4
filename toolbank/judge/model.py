"""A language model as the judge: what it is asked, and how its answer is read."""

from __future__ import annotations

from typing import Any

from toolbank.chat.chat import ChatRequest, Message
from toolbank.judge.config import Criterion
from toolbank.llm.json_answer import AnswerError, find_answer
from toolbank.llm.templates import PromptTemplate

TEMPLATE = "judge.j2"

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "reason": {"type": "string"},
        "winner": {"type": "string", "enum": ["A", "B", "tie"]},
    },
    "required": ["reason", "winner"],
    "additionalProperties": False,
}


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
        stage="judge",
        messages=(Message("user", prompt),),
        schema=SCHEMA,
    )


def read_winner(text: str) -> str | None:
    """Read "A", "B" or "tie" from a reply, or None where it says no such thing, or several."""
    try:
        winner = find_answer(text, ["winner"])["winner"]
    except AnswerError:
        return None
    return {"a": "A", "b": "B", "tie": "tie"}.get(str(winner).strip().lower())
