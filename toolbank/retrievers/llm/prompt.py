"""What a model is asked that orders the candidates of a request."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from toolbank.llm.chat import ChatRequest, Message, number_of

if TYPE_CHECKING:
    from toolbank.bank.records import Tool
    from toolbank.llm.templates import PromptTemplate

TEMPLATE = "rank.j2"

KEY = "tools"
"""What an answer holds the numbers of the tools under."""

_SUMMARY_CHARACTERS = 240

Shown = Sequence[tuple[str, str]]
"""Names and summaries of the tools that a prompt shows, in its order."""


def make_request(template: PromptTemplate, text: str, tools: Shown) -> ChatRequest:
    """Ask which of these tools a request needs, best first.

    Raises:
        InputError: the user's prompts/rank.j2 is broken.
    """
    listed = [
        {"number": number, "name": name, "summary": summary}
        for number, (name, summary) in enumerate(tools, start=1)
    ]
    return ChatRequest(
        attempt=number_of(text),
        step="rank",
        messages=(Message("user", template.render(request=text, tools=listed)),),
        schema=template.schema,
    )


def summarise(tool: Tool) -> str:
    """What a prompt says of a tool beside its name, on one line."""
    said = tool.summary or tool.description
    return textwrap.shorten(said, _SUMMARY_CHARACTERS, placeholder=" ...")
