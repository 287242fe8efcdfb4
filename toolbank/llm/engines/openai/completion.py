"""The body of a chat-completions request, and what the body that comes back says.

The same bodies go over a wire and through the files of the Batch API.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from toolbank.llm.chat import ChatReply, ChatRequest, count_visible
from toolbank.system.errors import InputError
from toolbank.system.text import replace_surrogates

if TYPE_CHECKING:
    from toolbank.llm.config import EngineConfig

Format = Literal["json_schema", "json_object", "text"]
Limit = Literal["max_tokens", "max_completion_tokens"]

_EXCERPT = 4000
_LONGEST_MODEL = 200
# The context of no model holds more tokens: what reports more counts for nothing.
_MOST_TOKENS = 10_000_000
# How a stream of server-sent events begins.
_EVENT = re.compile(r"\s*(data|event|id|retry)?:")
# What the loop says itself, and what it couldn't read.
_TAKEN = {
    "model": "the setting `model` names it",
    "messages": "they are made from the prompts",
    "response_format": "it is made from the schema of the answer",
    "stream": "replies are read whole",
    "n": "one answer is read of each reply",
    "temperature": "it is a setting of its own: `temperature`",
    "extra_headers": "a header of one's own is set by `headers`, next to `parameters`",
    "extra_query": "it is set by `url_query`, next to `parameters`",
    "extra_body": "what would be in it stands in `parameters` itself",
    "max_tokens": "it is a setting of its own: `max_tokens`",
    "max_completion_tokens": (
        "the setting `max_tokens` is sent under this name to servers that want it"
    ),
}


class CompletionError(Exception):
    """A body that is no chat completion.

    `reason` is a short name that becomes a count: `error-in-reply` (the server tells of an error,
    in place of the answer), `stream-in-reply` (server-sent events), `web-page`,
    `not-json-response`. `said` is the beginning of the body, or the error's message. The tokens
    are those that the body says were used; of a stream, one for each event.
    """

    def __init__(
        self,
        reason: str,
        said: str,
        prompt_tokens: int = 0,
        completion_tokens: int = 0,
    ) -> None:
        super().__init__(f"{reason}: {said}")
        self.reason = reason
        self.said = said
        self.prompt_tokens = prompt_tokens
        self.completion_tokens = completion_tokens


def make_identity(config: EngineConfig) -> str:
    """The name of a model and the settings that shape its replies, as `Engine.identity` has it.

    Where the endpoint is and how it is reached is left out (URL, key, time-outs, concurrency): the
    same model behind another port, or asked by files, is not asked again.
    """
    identity: dict[str, Any] = {
        "engine": "openai",
        "model": config.model,
        "temperature": config.temperature,
        "max_tokens": config.max_tokens,
    }
    if config.parameters:
        ordered = json.dumps(config.parameters, sort_keys=True)
        identity["parameters"] = json.loads(ordered)
    return json.dumps(identity)


def check_settings(config: EngineConfig) -> None:
    """Refuse what no request can be made of.

    Raises:
        InputError: no model is named, or a parameter is set elsewhere.
    """
    if not config.model:
        raise InputError(
            f"{config.section}.model: not set. Write `model: NAME` under `{config.section}` in the "
            f"recipe, as {config.base_url} names it, or add --set {config.section}.model=NAME."
        )
    for name in config.parameters:
        if name in _TAKEN:
            raise InputError(
                f"{config.section}.parameters.{name}: can't be set here; {_TAKEN[name]}."
            )


def make_body(
    config: EngineConfig,
    request: ChatRequest,
    *,
    answer_as: Format = "json_schema",
    limit: Limit = "max_tokens",
) -> dict[str, Any]:
    """The request as the chat-completions protocol has it; the sampling parameters as they are.

    `answer_as` and `limit` are what a server takes: how structured output is asked for, and what
    the bound of an answer's tokens is called.
    """
    body: dict[str, Any] = {
        "model": config.model,
        "messages": [
            {"role": message.role, "content": message.content}
            for message in request.messages
        ],
        limit: config.max_tokens,
    }
    if config.temperature is not None:
        body["temperature"] = config.temperature
    body.update(config.parameters)
    if answer_as == "json_schema":
        schema = {"name": request.step, "strict": True, "schema": request.schema}
        body["response_format"] = {"type": answer_as, "json_schema": schema}
    elif answer_as == "json_object":
        body["response_format"] = {"type": answer_as}
    return body


def read_completion(body: bytes | dict[str, Any], *, model: str) -> ChatReply:
    """The reply that a chat-completions body holds; `model` is what was asked, if it names none.

    An answer that was cut, refused or left empty is a reply too, and its `finish` says so.

    Raises:
        CompletionError: the body is no chat completion. Nothing else is raised.
    """
    try:
        completion = json.loads(body) if isinstance(body, bytes) else body
        choice = completion["choices"][0]
        message = choice["message"]
        content = message.get("content")
        finish = choice.get("finish_reason")
        failed = choice.get("error") or (completion.get("error") and not content)
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        raise _problem(body) from None
    if failed:
        error = choice.get("error") or completion["error"]
        raise _problem({"error": error, "usage": completion.get("usage")})
    refusal = message.get("refusal")
    texts = (_text(content), refusal)
    text = next((t for t in texts if isinstance(t, str)), "")
    tokens_in, tokens_out, total = _read_usage(completion.get("usage"))
    named = completion.get("model")
    return ChatReply(
        text=text,
        model=named[:_LONGEST_MODEL] if named and isinstance(named, str) else model,
        prompt_tokens=tokens_in,
        completion_tokens=tokens_out,
        finish=_finish(finish, text, bool(refusal)),
        total_tokens=total,
        unread=_count_reasoning(message),
    )


def _text(content: Any) -> Any:
    """The text of a message; models that think aloud may answer in parts."""
    if not isinstance(content, list):
        return content
    parts = [part.get("text") for part in content if isinstance(part, dict)]
    return "".join(part for part in parts if isinstance(part, str))


def _problem(body: bytes | dict[str, Any]) -> CompletionError:
    said: Any = body
    if isinstance(body, bytes):
        said = body[:_EXCERPT].decode("utf-8", "replace")
        if said.lstrip("\ufeff \t\r\n").startswith("<"):
            return CompletionError("web-page", said)
        if _EVENT.match(said):
            events = body.count(b"data:")
            return CompletionError("stream-in-reply", said, completion_tokens=events)
        with suppress(ValueError, RecursionError):
            said = json.loads(body)
    error = said.get("error") if isinstance(said, dict) else None
    if not error:
        return CompletionError("not-json-response", _shown(said))
    message = error.get("message") if isinstance(error, dict) else None
    tokens_in, tokens_out, total = _read_usage(said.get("usage"))
    return CompletionError(
        "error-in-reply", _shown(message or error), tokens_in, tokens_out or total
    )


def _shown(value: Any) -> str:
    try:
        text = value if isinstance(value, str) else json.dumps(value)
    except RecursionError:
        text = ""
    return replace_surrogates(text[:_EXCERPT])


def _finish(reason: Any, text: str, refused: bool) -> str:
    """What `ChatReply.finish` says of a choice; some servers give no reason."""
    if reason == "content_filter" or refused:
        return "content-filter"
    if reason == "length":
        return "cut-off"
    return "stop" if text.strip() else "empty"


def _read_usage(usage: Any) -> tuple[int, int, int]:
    """Tokens in and out, 0 where they are not reported; the sum, where it alone is.

    Some servers count a model's reasoning in the sum alone, or apart from the answer.
    """
    tokens_in = _count(usage, "prompt_tokens")
    tokens_out = _count(usage, "completion_tokens")
    total = _count(usage, "total_tokens")
    details = usage.get("completion_tokens_details") if isinstance(usage, dict) else {}
    reasoning = _count(details, "reasoning_tokens")
    if reasoning > tokens_out:
        tokens_out += reasoning
    if tokens_in:
        return tokens_in, max(tokens_out, total - tokens_in), 0
    if tokens_out:
        return max(0, total - tokens_out), tokens_out, 0
    return 0, 0, total


def _count(counts: Any, name: str) -> int:
    value = counts.get(name) if isinstance(counts, dict) else None
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else 0


def _count_reasoning(message: dict[str, Any]) -> int:
    """Characters of the reasoning that came next to the answer; two names may have the same."""
    texts = (message.get(name) for name in ("reasoning_content", "reasoning"))
    return max((count_visible(one) for one in texts if isinstance(one, str)), default=0)
