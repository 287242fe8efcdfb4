"""A language model as the judge: what it is asked, and how its answer is read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from toolbank.assets import find_asset
from toolbank.errors import InputError
from toolbank.judge.config import Criterion
from toolbank.llm.chat import ChatRequest, JudgeTask, Message

if TYPE_CHECKING:
    from jinja2 import Template

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

_LONGEST = 100_000


def load_template() -> Template:
    """Read prompts/judge.j2, the user's own before ours.

    Raises:
        InputError: it is missing or not a template.
    """
    from jinja2 import StrictUndefined, TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    path = find_asset("prompts", TEMPLATE).path
    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    try:
        return environment.from_string(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, TemplateError) as error:
        raise InputError(
            f"{path}: not a template that can be read ({error})."
        ) from error


def make_request(
    template: Template, number: int, criterion: Criterion, first: str, second: str
) -> ChatRequest:
    """Ask which of two texts is better by one criterion; `number` is the pair's.

    Raises:
        InputError: the template can't be filled.
    """
    from jinja2 import TemplateError

    try:
        prompt = template.render(criterion=criterion, first=first, second=second)
    except TemplateError as error:
        raise InputError(f"prompts/{TEMPLATE}: can't be filled ({error}).") from error
    return ChatRequest(
        attempt=number,
        stage="judge",
        messages=(Message("user", prompt.strip()),),
        schema=SCHEMA,
        task=JudgeTask(criterion, first, second),
    )


def read_winner(text: str) -> str | None:
    """Read "A", "B" or "tie" from a reply, or None where it says no such thing, or several."""
    winners = {
        str(found["winner"]).strip().lower() for found in _objects(text[:_LONGEST])
    }
    known = {"a": "A", "b": "B", "tie": "tie"}
    return known.get(winners.pop()) if len(winners) == 1 else None


def _objects(text: str) -> Iterator[dict[str, Any]]:
    decoder = json.JSONDecoder(strict=False)
    text = re.sub(r"<think(?:ing)?>.*?</think(?:ing)?>", " ", text, flags=re.DOTALL)
    start = text.find("{")
    while start >= 0:
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            end = start + 1
        else:
            if "winner" in value:
                yield value
        start = text.find("{", end)
