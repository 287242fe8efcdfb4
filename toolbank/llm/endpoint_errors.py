"""What an endpoint's failures are called, and whether trying again can help."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from toolbank.llm.chat import EngineError

if TYPE_CHECKING:
    from openai import APIStatusError

# Sent to servers that need no key.
NO_KEY = "none"

_SHOWN = 300


def status_error(error: APIStatusError, url: str, model: str, key: str) -> EngineError:
    """The failure of a call that came back with an HTTP error status."""
    status = error.status_code
    said = _quote(error.response.text, key)
    if status in (401, 403):
        return EngineError(
            f"{url}: the key is refused (HTTP {status}). Check the environment variable "
            "(OPENAI_API_KEY, or the one that `api_key_env` names), and that the key may use "
            "this model.",
            reason="refused-key",
            fatal=True,
        )
    if status == 404:
        return EngineError(
            f"{url}: no such model or path (HTTP 404; model {model!r}).{said} Check `base_url`, "
            "which mostly ends in /v1, and `model`.",
            reason="no-such-model",
            fatal=True,
        )
    if status == 402 or error.code == "insufficient_quota":
        return EngineError(
            f"{url}: the account has no credit left (HTTP {status}).{said}",
            reason="no-credit",
            fatal=True,
        )
    if status in (400, 422):
        return EngineError(
            f"{url}: the request was refused (HTTP {status}).{said}",
            reason="bad-request",
        )
    return EngineError(
        f"{url}: HTTP {status}.{said}",
        reason=f"http-{status}",
        retryable=status in (408, 409, 425, 429) or status >= 500,
        retry_after=_read_retry_after(error.response.headers.get("retry-after")),
    )


def connection_error(error: Exception, url: str, key: str) -> EngineError:
    """The failure of a call that got no HTTP answer, or not all of it."""
    cause = _hide(str(error.__cause__ or error), key)
    return EngineError(
        f"{url}: can't connect, or the connection broke ({cause[:_SHOWN]}). "
        "Is the server running, and is `base_url` right?",
        reason="connection",
        retryable=True,
    )


def unusable_reply(body: bytes, url: str, key: str) -> EngineError:
    """The failure of a call that came back with status 200 and no chat completion."""
    said = _quote(body[:2000].decode("utf-8", "replace"), key)
    return EngineError(
        f"{url}: the answer is not a chat completion.{said} Is this an OpenAI-compatible "
        "endpoint? `base_url` mostly ends in /v1.",
        reason="not-json-response",
        retryable=True,
    )


def _quote(text: str, key: str) -> str:
    text = " ".join(_hide(text, key).split())
    if not text:
        return ""
    return f" It says: {text[:_SHOWN]}{' ...' if len(text) > _SHOWN else ''}"


def _hide(text: str, key: str) -> str:
    # The placeholder of local servers is a word, and no secret.
    return text.replace(key, "***") if key != NO_KEY else text


def _read_retry_after(value: str | None) -> float | None:
    """Seconds from a Retry-After header, which holds seconds or a date (RFC 9110, 10.2.3)."""
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None
