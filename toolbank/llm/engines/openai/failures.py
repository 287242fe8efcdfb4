"""Name the failures of an endpoint, and decide whether another try can help."""

from __future__ import annotations

import json
import os
import re
import ssl
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from toolbank.llm.chat import EngineError
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


def read_pause(headers: Mapping[str, str]) -> float:
    """Seconds until a limit that is used up is reset; 0 where none is.

    A negative number is how some gateways say that there is no limit.
    `headers` finds names in lower case.
    """
    resets = (reset for left, reset in _limits(headers) if left == 0)
    return max(resets, default=0.0)


def read_wait(headers: Mapping[str, str]) -> float | None:
    """Seconds that a refused call is asked to wait, at most a day, or None where nothing is said.

    Retry-After (RFC 9110, 10.2.3) and its form in milliseconds go first; then the limit that is
    used up, or, where none seems to be, the one that is reset first.
    """
    milliseconds = read_number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return _bounded(milliseconds / 1000)
    wait = _seconds(headers.get("retry-after", ""))
    if wait is None:
        resets = [reset for _, reset in _limits(headers)]
        wait = read_pause(headers) or min(resets, default=None)
    return wait


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
    """What came back of an HTTP request. Not `whole`: the body is longer, and this its beginning.

    `headers` finds names in lower case.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    whole: bool = True

    @property
    def text(self) -> str:
        """The body as text, whatever its bytes."""
        return self.body.decode("utf-8", "replace")


_SHOWN = 300
_CREDIT = re.compile(r"insufficient.?(quota|funds|credit|balance)", re.IGNORECASE)
# Groq's name for an answer of the model that is not the JSON it was asked for.
_BAD_GENERATION = "json_validate_failed"
_LIMITS = frozenset({"max_tokens", "max_completion_tokens"})


def status_error(
    answer: HttpResponse,
    url: str,
    model: str,
    credentials: Credentials,
    parameters: Collection[str],
) -> EngineError:
    """The failure of a call that came back with another HTTP status than 200.

    `parameters` are the names of the sampling settings that were sent.
    """
    status = answer.status
    text = _read_message(answer)
    said = _quote(text, credentials)
    if status in (401, 403):
        return EngineError(
            f"{url}: the key is refused (HTTP {status}).{said} Check the environment variable "
            "(OPENAI_API_KEY, or the one that `api_key_env` names), and that the key may use "
            f"this model.{credentials.withheld}",
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
    if status == 402 or (status == 429 and _CREDIT.search(answer.text)):
        return EngineError(
            f"{url}: the account has no credit left (HTTP {status}).{said} Add some, and run the "
            "same command again.",
            reason="no-credit",
            fatal=True,
        )
    if 300 <= status < 400:
        to = _hide(answer.headers.get("location", "another address"), credentials)
        return EngineError(
            f"{url}: leads to {to[:_SHOWN]} (HTTP {status}), and the key is sent to no other "
            "address than the one that was given. Set `base_url` to the right one.",
            reason=f"http-{status}",
            fatal=True,
        )
    if status in (400, 413, 422):
        return EngineError(
            f"{url}: the request was refused (HTTP {status}).{said}{_advise(text, parameters)}",
            reason="bad-request",
            retryable=_BAD_GENERATION in answer.text,
        )
    return EngineError(
        f"{url}: HTTP {status}.{said}",
        reason=f"http-{status}",
        retryable=status in (408, 409, 425, 429) or status >= 500,
        retry_after=read_wait(answer.headers),
    )


def connection_error(
    error: Exception, url: str, credentials: Credentials
) -> EngineError:
    """The failure of a call that got no HTTP answer, or not all of it."""
    cause = error.__cause__ or error
    # aiohttp's own words on a failed connection tell of its inside; the system's are plain.
    system = getattr(error, "os_error", None) or getattr(cause, "os_error", None)
    told = (
        _hide(_describe_system(system or cause), credentials)[:_SHOWN]
        or type(cause).__name__
    )
    what = "can't connect" if system else "can't connect, or the connection broke"
    return EngineError(
        f"{url}: {what} ({told}). Is the server running, and is `base_url` right?",
        reason="connection",
        retryable=True,
    )


def packing_error(url: str, error: Exception) -> EngineError:
    """The failure of a call whose answer can't be unpacked."""
    return EngineError(
        f"{url}: the answer is packed, and damaged ({error}).",
        reason="broken-encoding",
        retryable=True,
    )


def unknown_encoding(url: str, name: str) -> EngineError:
    """The failure of a call whose answer is packed in a way that was not asked for."""
    return EngineError(
        f"{url}: the answer is packed as {name[:40]!r}, where gzip or deflate were asked for. "
        "A proxy before the endpoint may do that.",
        reason="unknown-encoding",
        retryable=True,
    )


def unusable_reply(
    error: CompletionError, url: str, credentials: Credentials, *, is_sure: bool
) -> EngineError:
    """The failure of a call that came back with status 200 and no chat completion.

    `is_sure`: there were web pages alone up to now, so this is not the address of an endpoint.
    """
    said = _quote(error.said, credentials)
    if error.reason == "web-page":
        return _web_page(url, said, is_sure)
    if error.reason == "error-in-reply":
        told = f"the answer tells of an error in place of a completion.{said}"
    elif error.reason == "stream-in-reply":
        told = (
            f"the answer is a stream of events, which was not asked for.{said} Is a setting of "
            "the server or of a proxy before it wrong?"
        )
    else:
        told = (
            f"the answer is not a chat completion.{said} Is this an OpenAI-compatible endpoint? "
            "`base_url` mostly ends in /v1."
        )
    return EngineError(
        f"{url}: {told}",
        reason=error.reason,
        retryable=True,
        prompt_tokens=error.prompt_tokens,
        completion_tokens=error.completion_tokens,
    )


def _web_page(url: str, said: str, is_sure: bool) -> EngineError:
    if not is_sure:
        told = "the answer is a web page, as of a sign-on or of maintenance."
        return EngineError(f"{url}: {told}{said}", reason="web-page", retryable=True)
    usual = urlsplit(url)._replace(path="/v1").geturl()
    hint = "" if url.rstrip("/") == usual else f", here {usual}"
    return EngineError(
        f"{url}: this is the address of web pages, and not of an endpoint.{said} `base_url` is "
        f"that of the API, which mostly ends in /v1{hint}.",
        reason="web-page",
        fatal=True,
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
    """Such as "connection refused"."""
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        number = error.errno or 0
        told = os.strerror(number) if number > 0 else error.strerror
        return (told or str(error)).lower()
    return str(error)


def _read_message(answer: HttpResponse) -> str:
    """What an error says: its message, where it is in the form of OpenAI's API."""
    try:
        error = json.loads(answer.body)["error"]
        message = error if isinstance(error, str) else error["message"]
    except (ValueError, RecursionError, LookupError, TypeError):
        return answer.text
    return message if isinstance(message, str) else answer.text


def _advise(text: str, parameters: Collection[str]) -> str:
    """Which setting to change, where a refusal names one that was sent."""
    named = [name for name in parameters if re.search(rf"\b{re.escape(name)}\b", text)]
    if not named:
        return ""
    name = named[0]
    if name in _LIMITS:
        return " Set a smaller `max_tokens`."
    if name == "temperature":
        return " Set `temperature: null`, so that it is not sent."
    return f" Change `{name}` in `parameters`, or take it out."
