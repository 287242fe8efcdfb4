"""What a call may cost in tokens, before it tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolbank.chat.chat import ChatRequest

# Of English.
CHARACTERS_PER_TOKEN = 4
# What a completion is taken to cost before the first came.
FIRST_COMPLETION = 300.0


def estimate_prompt(request: ChatRequest) -> float:
    """Tokens of a request's messages, by their characters."""
    return count_characters(request) / CHARACTERS_PER_TOKEN


def count_characters(request: ChatRequest) -> int:
    """Characters of a request's messages."""
    return sum(len(message.content) for message in request.messages)
