"""One line of what a Batch API gives back."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any

from toolbank.chat.chat import ChatReply
from toolbank.llm.engines.openai.completion import CompletionError, read_completion
from toolbank.system.text import replace_surrogates

# A longer one is a reply that nobody can use.
_MOST_BYTES = 4 * 2**20
_EXCERPT = 100_000
# Of an error's message; more than is shown of it, so that a key in it can be hidden whole.
_MESSAGE = 1000
# What no further try of the same request can mend.
_FINAL_STATUS = (400, 413, 422)
# But for one that wants its limit of tokens under another name.
LIMIT = "max_completion_tokens"


@dataclass(frozen=True)
class Refusal:
    """Why a request was not answered; `is_final` where it would not be again.

    The tokens are those that it was charged for all the same.
    """

    reason: str
    message: str = ""
    is_final: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True)
class Line:
    """The request of this key, in the journal, and its reply; None where it is the request."""

    key: str
    reply: ChatReply | Refusal | None


def read_line(line: bytes, model: str) -> Line | None:
    """Read a line of requests, output or errors; None where it is no such thing.

    `model` is what was asked, where a reply names none. Nothing that a line can hold raises.
    """
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict) or not isinstance(row.get("custom_id"), str):
        return None
    if "response" not in row and "error" not in row:
        return Line(row["custom_id"], None)
    reply = _read_answer(row.get("response"), row.get("error"), model)
    if isinstance(reply, ChatReply) and len(line) > _MOST_BYTES:
        reply = replace(reply, text=reply.text[:_EXCERPT], finish="too-large")
    return Line(row["custom_id"], reply)


def _read_answer(response: Any, error: Any, model: str) -> ChatReply | Refusal:
    if not isinstance(response, dict):
        code = error.get("code") if isinstance(error, dict) else None
        return Refusal(_reason(code or "batch-error"), _message(error))
    status, body = response.get("status_code"), response.get("body")
    if status != 200 or error:
        told = body.get("error") if isinstance(body, dict) else None
        message = _message(told or error or body)
        is_final = status in _FINAL_STATUS and LIMIT not in message
        return Refusal(_reason(f"http-{status}"), message, is_final)
    if not isinstance(body, dict):
        return Refusal("not-json-response", _message(body))
    try:
        return read_completion(body, model=model)
    except CompletionError as problem:
        return Refusal(
            problem.reason,
            _message(problem.said),
            prompt_tokens=problem.prompt_tokens,
            completion_tokens=problem.completion_tokens,
        )


def _reason(code: Any) -> str:
    """A short name for counts, of what may be anything."""
    return re.sub(r"[^a-z0-9]+", "-", str(code).lower())[:40].strip("-")


def _message(error: Any) -> str:
    message = error.get("message") if isinstance(error, dict) else None
    text = " ".join(str(message or error or "").split())[:_MESSAGE]
    return replace_surrogates(text)
