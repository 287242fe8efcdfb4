"""What a model is asked that splits a request into subtasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbank.llm.chat import ChatRequest, Message, number_of

if TYPE_CHECKING:
    from toolbank.llm.templates import PromptTemplate

TEMPLATE = "decompose.j2"

KEY = "subtasks"
"""What an answer holds them under."""


def make_request(template: PromptTemplate, text: str) -> ChatRequest:
    """Ask for the subtasks of a request.

    Raises:
        InputError: the user's prompts/decompose.j2 is broken.
    """
    return ChatRequest(
        attempt=number_of(text),
        step="decompose",
        messages=(Message("user", template.render(request=text)),),
        schema=template.schema,
    )
