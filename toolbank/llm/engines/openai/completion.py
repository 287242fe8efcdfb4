"""Make the body of a chat-completions request, and read that of the response.

HTTP and the files of the Batch API use the same bodies.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from toolbank.llm.chat import ChatReply, ChatRequest, count_visible
from toolbank.llm.engines.kind import refuse_taken
from toolbank.system.errors import InputError
from toolbank.system.text import replace_surrogates

if TYPE_CHECKING:
    from toolbank.llm.config import EngineConfig

Format = Literal["json_schema", "json_object", "text"]
Limit = Literal["max_tokens", "max_completion_tokens"]

_EXCERPT = 4000
_LONGEST_MODEL = 200
# No model's context holds more tokens: a larger number is ignored.
_MOST_TOKENS = 10_000_000
# The beginning of a stream of server-sent events.
_EVENT = re.compile(r"\s*(data|event|id|retry)?:")
# Reasons to finish, in lower case, of an answer that the server did not complete (vLLM, SGLang,
# OpenRouter, DeepSeek), and of one that a filter stopped (Azure, Gemini, Zhipu, Bedrock).
_ABORTED = re.compile(
    "error|abort(ed)?|cancelled|network_error|timeout|insufficient_system_resource"
    "|malformed_function_call"
)
_FILTERED = re.compile(
    "content_filter(ed)?|safety|prohibited_content|recitation|blocklist|spii|sensitive|refusal"
    "|guardrail_intervened"
)
_REASONING = ("reasoning_content", "reasoning")
# Parameters that toolbank sets, or whose replies it can't read.
_TAKEN = {
    "model": "use the setting `model`",
    "messages": "they are made from the prompts",
    "response_format": "it is made from the schema of the answer",
    "stream": "replies are read whole",
    "n": "each reply has one answer",
    "temperature": "use the setting `temperature`",
    "extra_headers": "use the setting `headers`",
    "extra_query": "use the setting `url_query`",
    "extra_body": "put its content into `parameters` itself",
    "max_tokens": "use the setting `max_tokens`",
    "max_completion_tokens": "use `max_tokens`, which is sent under this name if needed",
}


class CompletionError(Exception):
    """A body that is no chat completion.

    `reason` is a short name that is counted: `error-in-reply` (an error in place of the answer),
    `stream-in-reply` (server-sent events), `web-page`, `not-json-response`, or `finish-` and the
    reason why the server did not complete the answer. `said` is the
    beginning of the body, or the error's message. The tokens are those that the body reports; of
    a stream, one per event.
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
    """Make `Engine.identity` from the model and the settings that shape its replies.

    Settings of the connection (URL, key, time limits, concurrency) are not part of it, so that
    the same model on another port, or through files, is not called again.
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
    """Refuse settings that no request can be made from.

    Raises:
        InputError: no model is named, or a parameter has its own setting.
    """
    if not config.model:
        raise InputError(
            f"{config.section}.model: not set. Write `model: NAME` under `{config.section}` in the "
            f"recipe, as {config.base_url} names it, or add --set {config.section}.model=NAME."
        )
    refuse_taken(f"{config.section}.parameters", config.parameters, _TAKEN)


def make_body(
    config: EngineConfig,
    request: ChatRequest,
    *,
    answer_as: Format = "json_schema",
    limit: Limit = "max_tokens",
) -> dict[str, Any]:
    """Make the body of a chat-completions request.

    `answer_as` is the form of structured output and `limit` the name of the token limit that the
    server accepts.
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
        schema = {"name": request.step, "strict": True, "schema": request.sent_schema}
        body["response_format"] = {"type": answer_as, "json_schema": schema}
    elif answer_as == "json_object":
        body["response_format"] = {"type": answer_as}
    return body


def read_completion(body: Any, *, model: str) -> ChatReply:
    """Read the reply in a chat-completions body, bytes or JSON.

    `model` is the requested one, for bodies that name none. An answer that was cut, refused or left
    empty is a reply too, and its `finish` says so.

    Raises:
        CompletionError: the body is no chat completion. Nothing else is raised.
    """
    try:
        completion = json.loads(body) if isinstance(body, bytes) else body
        choice = completion["choices"][0]
        # Completions of the older form have a text in place of a message.
        message = choice.get("message") or {"content": choice["text"]}
        content = message.get("content")
        finish = str(choice.get("finish_reason")).lower()
        failed = choice.get("error") or (completion.get("error") and not content)
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        raise find_problem(body) from None
    if failed:
        error = choice.get("error") or completion["error"]
        raise find_problem({"error": error, "usage": completion.get("usage")})
    if _ABORTED.fullmatch(finish):
        raise CompletionError(
            f"finish-{finish}", finish, *read_usage(completion.get("usage"))[:2]
        )
    refusal = message.get("refusal")
    text = _text(content)
    if not text.strip() and finish != "length":
        text = _find_elsewhere(message) or text
    if not text and isinstance(refusal, str):
        text = refusal
    tokens_in, tokens_out, total = read_usage(completion.get("usage"))
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


def _text(content: Any) -> str:
    """The text of a message, which may come in parts, or as an object that a gateway has parsed."""
    if isinstance(content, dict):
        return json.dumps(content)
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def _find_elsewhere(message: dict[str, Any]) -> str:
    """The answer of a message without content: the arguments of its one call, or its reasoning.

    vLLM puts structured output into the reasoning if its parser finds no end of the thoughts.
    """
    calls = message.get("tool_calls")
    with suppress(LookupError, TypeError, ValueError):
        [call] = (
            calls
            if isinstance(calls, list)
            else [{"function": message["function_call"]}]
        )
        return _text(call["function"]["arguments"])
    texts = (_text(message.get(name)) for name in _REASONING)
    return next((text for text in texts if "{" in text), "")


def find_problem(body: Any) -> CompletionError:
    """Describe a body that is not what was requested."""
    said = body
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
    tokens_in, tokens_out, total = read_usage(said.get("usage"))
    return CompletionError(
        "error-in-reply", _shown(message or error), tokens_in, tokens_out or total
    )


def _shown(value: Any) -> str:
    try:
        text = value if isinstance(value, str) else json.dumps(value)
    except RecursionError:
        text = ""
    return replace_surrogates(text[:_EXCERPT])


def _finish(reason: str, text: str, refused: bool) -> str:
    """Find `ChatReply.finish` of a choice; some servers give no reason."""
    if refused or _FILTERED.fullmatch(reason):
        return "content-filter"
    if reason in ("length", "max_tokens"):
        return "cut-off"
    return "stop" if text.strip() else "empty"


def read_usage(usage: Any) -> tuple[int, int, int]:
    """Read the tokens in and out, 0 if not reported, and the total if nothing else is.

    Some servers count a model's reasoning only in the total, or separately from the answer.
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
    """Count the characters of the reasoning next to the answer; two keys may have the same."""
    texts = (message.get(name) for name in _REASONING)
    return max((count_visible(one) for one in texts if isinstance(one, str)), default=0)
