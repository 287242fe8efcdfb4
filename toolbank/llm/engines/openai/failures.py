"""Name the failures of an endpoint, and decide whether another try can help."""

from __future__ import annotations

import json
import os
import re
import ssl
import time
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from toolbank.llm.chat import EngineError
from toolbank.system.http import EncodingError
from toolbank.system.net import read_number, read_seconds

if TYPE_CHECKING:
    from toolbank.llm.config import Credentials
    from toolbank.llm.engines.openai.completion import CompletionError


# A longer wait is no help to a run, and may be an absurd number.
LONGEST_WAIT = 86_400.0

# OpenAI's headers, those of gateways, and those of the IETF's draft of 2019 to 2024.
_RATE_LIMITS = (
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ("ratelimit-remaining", "ratelimit-reset"),
)


_WAIT_FIELD = re.compile(
    r'"retry_?(?:delay|after|in)(?:_?s|_?seconds)?"\s*:\s*"?([\d.]+s?)\b', re.IGNORECASE
)
_AMOUNT = re.compile(
    r"(\d+(?:\.\d+)?)\s*(milliseconds?|ms|minutes?|mins?|seconds?|secs?|hours?|m|s|h)(?![a-z])\s*",
    re.IGNORECASE,
)
_WAIT_SENTENCE = re.compile(
    rf"(?:retry|try again|wait)[^.\d]{{0,30}}((?:{_AMOUNT.pattern})+)", re.IGNORECASE
)


def read_pause(headers: Mapping[str, str]) -> float:
    """Read the seconds until a used-up limit is reset; 0 if none is used up.

    Some gateways give a negative number for no limit. `headers` finds names in lower case.
    """
    resets = (reset for left, reset in _limits(headers) if left == 0)
    return max(resets, default=0.0)


def read_wait(headers: Mapping[str, str], body: str = "") -> float | None:
    """Read the seconds that a refused call has to wait, at most a day; None if unknown.

    Retry-After (RFC 9110, 10.2.3) and its form in milliseconds come first, then the used-up
    limit, then the limit that is reset first, then what the body says: a `retryDelay` (Google), the
    headers of the provider behind a router (OpenRouter), or a sentence (OpenAI, Azure, Groq).
    """
    wait = _read_headers(headers)
    return _read_body(body) if wait is None else wait


def _read_headers(headers: Mapping[str, str]) -> float | None:
    milliseconds = read_number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return _bounded(milliseconds / 1000)
    wait = _seconds(headers.get("retry-after", ""))
    if wait is None:
        resets = [reset for _, reset in _limits(headers)]
        wait = read_pause(headers) or min(resets, default=None)
    return wait


def _read_body(text: str) -> float | None:
    if field := _WAIT_FIELD.search(text):
        return _seconds(field[1])
    with suppress(ValueError, RecursionError):
        for inner in _find_headers(json.loads(text)):
            if (wait := _read_headers(inner)) is not None:
                return wait
    if sentence := _WAIT_SENTENCE.search(text):
        parts = _AMOUNT.findall(sentence[1])
        return _bounded(sum(float(n) * _count_seconds(unit) for n, unit in parts))
    return None


def _count_seconds(unit: str) -> float:
    unit = unit.lower()
    if unit.startswith(("ms", "milli")):
        return 0.001
    return {"h": 3600.0, "m": 60.0, "s": 1.0}[unit[0]]


def _find_headers(value: Any) -> Iterator[Mapping[str, str]]:
    """The headers that an error quotes, with names in lower case."""
    if isinstance(value, list):
        for one in value:
            yield from _find_headers(one)
    elif isinstance(value, dict):
        for key, one in value.items():
            if key == "headers" and isinstance(one, dict):
                yield {str(name).lower(): str(text) for name, text in one.items()}
            else:
                yield from _find_headers(one)


def _limits(headers: Mapping[str, str]) -> Iterator[tuple[float | None, float]]:
    for remaining, reset in _RATE_LIMITS:
        wait = _seconds(headers.get(reset, ""))
        if wait is not None:
            yield read_number(headers.get(remaining, "")), wait


def _seconds(text: str) -> float | None:
    wait = read_seconds(text, time.time())
    return None if wait is None else _bounded(wait)


def _bounded(seconds: float) -> float:
    return min(max(0.0, seconds), LONGEST_WAIT)


@dataclass(frozen=True)
class HttpResponse:
    """An HTTP response. If it is not `whole`, `body` is only the beginning.

    `headers` finds names in lower case.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    whole: bool = True

    @property
    def text(self) -> str:
        """The body as text; invalid bytes are replaced."""
        return self.body.decode("utf-8", "replace")


_SHOWN = 300
# What a moderation layer or a content filter says of a prompt (OpenRouter, Azure, Alibaba, Zhipu).
_FILTERED = re.compile(
    r"moderation|flagged|content.?(?:filter|polic|management)|data_?inspection|prohibited|sensitive"
    r"|unsafe|guardrail|responsible.?ai",
    re.IGNORECASE,
)
_CREDIT = re.compile(r"insufficient.?(quota|funds|credit|balance)", re.IGNORECASE)
# Groq's name for an answer that is not the requested JSON.
_BAD_GENERATION = "json_validate_failed"
# 424 and 498 mean that a worker failed or had no capacity (Hugging Face, Groq).
_RETRYABLE = frozenset({408, 409, 424, 425, 429, 498})
_LIMITS = frozenset({"max_tokens", "max_completion_tokens"})


def status_error(
    answer: HttpResponse,
    url: str,
    model: str,
    credentials: Credentials,
    parameters: Collection[str],
    *,
    is_sure: bool = True,
) -> EngineError:
    """Make the error of a call with another HTTP status than 200.

    `parameters` are the names of the sampling settings that were sent. If it is not `is_sure` that
    every request meets the same error, a refusal (403, 404) concerns this prompt only.
    """
    status, text = answer.status, _read_message(answer)
    message = f"{url}: HTTP {status}.{_quote(text, credentials)}"
    reason = advice = ""
    if status in (400, 403, 422, 451) and _FILTERED.search(answer.text):
        return EngineError(message, reason="content-filter")
    if status in (403, 404) and not is_sure:
        return EngineError(message, reason=f"http-{status}")
    if status in (401, 403):
        reason = "refused-key"
        advice = (
            "The key is refused. Check the environment variable (OPENAI_API_KEY, or the one that "
            f"`api_key_env` names), and that the key may use this model.{credentials.withheld}"
        )
    elif status == 404:
        reason = "no-such-model"
        advice = (
            f"There is no model {model!r}, or no such path. Check `model` and `base_url`, which "
            "mostly ends in /v1."
        )
    elif status == 402 or (status == 429 and _CREDIT.search(answer.text)):
        reason = "no-credit"
        advice = (
            "The account has no credit left. Add some, and run the same command again."
        )
    elif 300 <= status < 400:
        reason = f"http-{status}"
        to = _hide(answer.headers.get("location", "another address"), credentials)
        advice = (
            f"It redirects to {to[:_SHOWN]}, but the key is sent to no other address than "
            "`base_url`. Set `base_url` to the right one."
        )
    if reason:
        return EngineError(f"{message} {advice}", reason=reason, fatal=True)
    if status in (400, 413, 422):
        return EngineError(
            f"{message}{_advise(text, parameters)}",
            reason="bad-request",
            retryable=_BAD_GENERATION in answer.text,
        )
    return EngineError(
        message,
        reason=f"http-{status}",
        retryable=status in _RETRYABLE or status >= 500,
        retry_after=read_wait(answer.headers, answer.text),
    )


def transfer_error(error: Exception, url: str, credentials: Credentials) -> EngineError:
    """Make the error of a call without a complete, readable HTTP response."""
    if isinstance(error, EncodingError):
        reason = "unknown-encoding"
        message = (
            f"the response is compressed as {str(error)[:40]!r}, but gzip or deflate were "
            "requested. A proxy in front of the endpoint may do that."
        )
    elif isinstance(error, zlib.error):
        reason = "broken-encoding"
        message = f"the compressed response is damaged ({error})."
    else:
        reason = "connection"
        cause = error.__cause__ or error
        # aiohttp's own messages describe its internals; the system's are plain.
        system = getattr(error, "os_error", None) or getattr(cause, "os_error", None)
        what = "can't connect" if system else "can't connect, or the connection broke"
        why = _hide(_describe_system(system or cause), credentials)[:_SHOWN]
        message = (
            f"{what} ({why or type(cause).__name__}). Is the server running, and is `base_url` "
            "right?"
        )
    return EngineError(f"{url}: {message}", reason=reason, retryable=True)


_UNUSABLE = {
    "web-page": "the answer is a web page, such as a login or a maintenance page.{quote}{advice}",
    "error-in-reply": "the answer is an error in place of a completion.{quote}",
    "stream-in-reply": "the answer is a stream of events, which was not requested.{quote} Check "
    "the settings of the server, and of a proxy in front of it.",
    "not-json-response": "the answer is not what was requested.{quote} Is this an "
    "OpenAI-compatible endpoint? `base_url` mostly ends in /v1.",
}
_INCOMPLETE = (
    "the server did not complete the answer: its finish_reason says so.{quote}"
)


def unusable_reply(
    error: CompletionError, url: str, credentials: Credentials, *, is_sure: bool
) -> EngineError:
    """Make the error of a call with status 200 and no chat completion.

    `is_sure`: there were only web pages so far, so this is not the address of an endpoint.
    """
    quote = _quote(error.said, credentials)
    usual = urlsplit(url)._replace(path="/v1").geturl()
    hint = "" if url.rstrip("/") == usual else f", here {usual}"
    fatal = error.reason == "web-page" and is_sure
    advice = (
        f" There were only web pages so far: set `base_url` to the address of the API, which mostly "
        f"ends in /v1{hint}."
        if fatal
        else ""
    )
    return EngineError(
        f"{url}: {_UNUSABLE.get(error.reason, _INCOMPLETE).format(quote=quote, advice=advice)}",
        reason=error.reason,
        retryable=not fatal,
        fatal=fatal,
        prompt_tokens=error.prompt_tokens,
        completion_tokens=error.completion_tokens,
    )


def _hide(text: str, credentials: Credentials) -> str:
    return " ".join(credentials.hide(text).split())


def _quote(text: str, credentials: Credentials) -> str:
    text = _hide(text, credentials)
    if not text:
        return ""
    if len(text) > _SHOWN:
        return f" It says: {text[:_SHOWN]} ..."
    return f" It says: {text}{'' if text[-1] in '.!?' else '.'}"


def _describe_system(error: BaseException) -> str:
    """Describe an error of the system, such as "connection refused"."""
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        number = error.errno or 0
        text = os.strerror(number) if number > 0 else error.strerror
        return (text or str(error)).lower()
    return str(error)


def _read_message(answer: HttpResponse) -> str:
    """Read the message of an error in the form of OpenAI's API, else the whole text."""
    try:
        body = json.loads(answer.body)
        # Gemini wraps it in a list.
        error = (body[0] if isinstance(body, list) else body)["error"]
        message = error if isinstance(error, str) else error["message"]
    except (ValueError, RecursionError, LookupError, TypeError):
        return answer.text
    return message if isinstance(message, str) else answer.text


def _advise(text: str, parameters: Collection[str]) -> str:
    """Advise which setting to change, if a refusal names one that was sent."""
    named = [name for name in parameters if re.search(rf"\b{re.escape(name)}\b", text)]
    if not named:
        return ""
    name = named[0]
    if name in _LIMITS:
        return " Set a smaller `max_tokens`."
    if name == "temperature":
        return " Set `temperature: null`, so that it is not sent."
    return f" Change `{name}` in `parameters`, or remove it."
