"""Call an HTTP API: build a request whose arguments stay in their places, and send it.

The request goes to a checked address.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

import aiohttp
from yarl import URL

from toolbank.bank.records import Argument, HttpCall
from toolbank.search.calls import CallError, Target
from toolbank.system.http import (
    EncodingError,
    PrivateAddressError,
    make_connector,
    read_body,
)

_OURS = re.compile(
    "host|origin|referer|authorization|cookie|set-cookie|accept-encoding|content-length"
    "|content-type|transfer-encoding|te|trailer|expect|connection|keep-alive|upgrade"
    "|forwarded|x-host|(x-real|x-client|x-cluster-client|true-client)-ip"
    "|(proxy-|sec-|x-forwarded|x-http-method|x-method|x-original-|x-rewrite-).*"
)
"""Headers that no argument may set."""
_METHOD_IN_QUERY = re.compile(r"_method|_?http_?method|x[-_]http[-_]method.*", re.I)
"""Parameters that override the method in some frameworks, so that a GET may write."""
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_NAME = r"{(?:[^{}]|{[^{}]*})+}"
_TEMPLATE = re.compile(
    rf"(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{{2}}|{_NAME})*)?"
)
"""A valid path, with its places for arguments."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BETWEEN = {"spaceDelimited": " ", "pipeDelimited": "|", "tabDelimited": "\t"}
_MOST_LEVELS = 20  # of brackets; below, a value is JSON
_QUOTED = {ord('"'): "%22", ord("\r"): "%0D", ord("\n"): "%0A"}
_SEVERAL = re.compile(r"[+*].*|.*[+*]|[^=]*=[^*]*\*.*|.*:path|.*\.\.\.", re.S)
"""A name of several segments, such as {proxy+}, {*path} or {name=projects/*}."""


@dataclass(frozen=True)
class HttpRequest:
    """A request that can be sent, with an encoded address."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


def prepare_request(
    base: str, call: HttpCall, arguments: Mapping[str, Any]
) -> HttpRequest:
    """Build the request of an operation with arguments that fit the tool's schema.

    The operation itself is not trusted: its path must not leave that of the base, nor may it set
    headers that change the meaning of the request.

    Raises:
        CallError: an argument has no place, or is not allowed there; or the operation is refused.
    """
    method = call.method.upper()
    if method not in _METHODS:
        raise CallError("The operation's method is not supported.")
    _check_template(call.path)
    places = {argument.property: argument for argument in call.arguments}
    path, query, headers = call.path, list[tuple[str, str]](), dict[str, str]()
    body: dict[str, Any] = {}
    form = list[tuple[str, str]]()
    whole: list[Any] = []
    for name, value in arguments.items():
        if name not in places:
            raise CallError(f"There is no argument {name!r}.")
        argument = places[name]
        said = argument.name or name
        if argument.place == "path":
            path = _fill(path, said, value, argument)
        elif argument.place == "query":
            query += _spread(said, value, argument)
        elif argument.place == "header":
            headers |= _header(said, value, argument)
        elif argument.place == "cookie":
            raise CallError(f"{name}: cookies are not supported.")
        elif argument.place == "form":
            fields = {argument.name: value} if argument.name else value
            if not isinstance(fields, Mapping):
                raise CallError(f"{name}: a form is an object of fields.")
            for key, one in fields.items():
                form += _spread(key, one, argument)
        elif argument.name:
            body[argument.name] = value
        else:
            whole.append(value)
    if "{" in path:
        raise CallError(f"An argument of the path is missing: {path}.")
    if _climbs(_decode(path)):
        raise CallError("The path, with its arguments, leaves that of the API.")
    data = None
    if form or whole or body:
        content = form or (whole[0] if whole else body)
        data, kind = _write_body(call.content_type, content, is_form=bool(form))
        headers["Content-Type"] = kind
    url = base.rstrip("/") + path
    for name, _ in (*query, *form):
        if _METHOD_IN_QUERY.fullmatch(name):
            raise CallError(f"{name}: may change the method of the request.")
    if query:
        url += "?" + urlencode(query, quote_via=quote, safe="")
    if urlsplit(url).netloc != urlsplit(base).netloc:
        raise CallError("The path leads to another host.")
    return HttpRequest(method, url, headers, data)


def _check_template(path: str) -> None:
    """Check that a path does not leave that of the base, also when decoded several times."""
    read = _decode(re.sub(_NAME, "x", path))
    if (
        not _TEMPLATE.fullmatch(path)
        or _climbs(read)
        or re.search(r"[\\\x00-\x1f\x7f?#]", read)
    ):
        raise CallError("The operation's path is invalid, or leaves that of the API.")


def _decode(path: str) -> str:
    for _ in range(3):
        path = unquote(path)
    return path


def _climbs(path: str) -> bool:
    segments = (part.partition(";")[0] for part in re.split(r"[/\\]", path))
    return not {".", ".."}.isdisjoint(segments)


def _fill(path: str, name: str, value: Any, argument: Argument) -> str:
    """Put a value into its segment of a path."""
    if argument.style not in ("", "simple", *_BETWEEN):
        raise CallError(
            f"{argument.property}: the style {argument.style} is not supported."
        )
    text = _join(value, argument)
    if not text or _climbs(_decode(text)) or _CONTROL.search(text):
        raise CallError(f"{argument.property}: {text!r} is not allowed in a path.")
    if f"{{{name}}}" not in path:
        raise CallError(f"{argument.property}: the path has no place for it.")
    safe = "/" if _SEVERAL.fullmatch(name) else ""
    return path.replace(f"{{{name}}}", quote(text, safe=safe))


def _spread(name: str, value: Any, argument: Argument) -> list[tuple[str, str]]:
    """Write a value as pairs of a query string or form, in OpenAPI's styles.

    In a form, an object is JSON unless its encoding says otherwise.
    """
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    style, explode = argument.style, argument.explode is not False
    if style == "application/json":
        return [(name, json.dumps(value, ensure_ascii=False))]
    if isinstance(value, Mapping):
        pairs = [(str(key), one) for key, one in value.items()]
        is_said = argument.place != "form" or style or argument.explode is not None
        if explode and style != "deepObject" and is_said:
            return [(key, _text(one)) for key, one in pairs]
        if not is_said:
            return [(name, _text(value))]
    elif is_list:
        pairs = [(str(number), one) for number, one in enumerate(value)]
        if explode and style != "deepObject" and style not in _BETWEEN:
            return [(name, _text(one)) for one in value]
    else:
        return [(name, _text(value))]
    if style == "deepObject" and name.count("[") < _MOST_LEVELS:
        parts = (_spread(f"{name}[{key}]", one, argument) for key, one in pairs)
        return [pair for part in parts for pair in part]
    return [(name, _join(value, argument))]


def _header(name: str, value: Any, argument: Argument) -> dict[str, str]:
    text = _join(value, argument)
    if _OURS.fullmatch(_fold(name)) or not _TOKEN.fullmatch(name):
        raise CallError(f"{name!r}: an argument may not set this header.")
    if _CONTROL.search(text) or not text.isascii():
        raise CallError(f"{name}: has characters that a header cannot have.")
    return {name: text}


def _write_body(kind: str, content: Any, *, is_form: bool) -> tuple[bytes, str]:
    """Write a body, for a form of pairs; return also its content type."""
    if not kind.isascii() or _CONTROL.search(kind):
        raise CallError(
            "The body's content type has characters that a header cannot have."
        )
    plain = kind.partition(";")[0].strip().lower()
    if is_form and plain == "application/x-www-form-urlencoded":
        return urlencode(content).encode(), plain
    if is_form and plain == "multipart/form-data":
        edge = token_hex(16)
        parts = (
            f'--{edge}\r\nContent-Disposition: form-data; name="{name.translate(_QUOTED)}"'
            f"\r\n\r\n{text}\r\n"
            for name, text in content
        )
        return f"{''.join(parts)}--{edge}--\r\n".encode(), f"{plain}; boundary={edge}"
    if not is_form and (plain in ("", "application/json") or plain.endswith("+json")):
        text = json.dumps(content, ensure_ascii=False)
        return text.encode(), kind or "application/json"
    if plain.startswith("text/") and isinstance(content, str):
        return content.encode(), plain
    raise CallError(f"The body has the type {kind}, which is not supported.")


def _join(value: Any, argument: Argument) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{key},{_text(one)}" for key, one in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return _BETWEEN.get(argument.style, ",").join(map(_text, value))
    return _text(value)


def _text(value: Any) -> str:
    """Write a value in the way of OpenAPI; a whole number without a decimal point."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, ensure_ascii=False)


NOT_PUBLIC = (
    "The address is not public. The operator of the server can allow it with "
    "`private: true`."
)
CALL_TIME = 30.0
"""The maximum duration of a call, in seconds."""
MOST_ANSWER = 1_000_000
"""The maximum size of a response, in bytes."""


async def send(request: HttpRequest, target: Target) -> str:
    """Send a request; gives the text of the response without the target's secrets.

    Raises:
        CallError: an argument sets the header of the credential; the API can't be reached, does
            not answer in time, or answers with an error, a redirect or too much.
    """
    headers = dict(request.headers)
    if target.credential:
        if _fold(target.credential.header) in map(_fold, headers):
            raise CallError(
                f"{target.credential.header}: an argument may not set this header."
            )
        headers |= target.credential.headers()
    try:
        async with (
            aiohttp.ClientSession(
                connector=make_connector(guards=not target.private),
                timeout=aiohttp.ClientTimeout(total=CALL_TIME),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            ) as session,
            session.request(
                request.method,
                URL(request.url, encoded=True),
                headers=headers,
                data=request.body,
                allow_redirects=False,
            ) as answer,
        ):
            content, is_whole = await read_body(answer, MOST_ANSWER)
            if not is_whole:
                raise CallError(f"The answer is larger than {MOST_ANSWER:,} bytes.")
            text = target.hide(content.decode("utf-8", "replace"))
            if answer.status >= 400:
                raise CallError(f"The API answered {answer.status}: {text[:2000]}")
            if 300 <= answer.status < 400:
                raise CallError(
                    f"The API answered {answer.status}, a redirect, which is not followed."
                )
            return text
    except TimeoutError as error:
        raise CallError(f"The API did not answer in {CALL_TIME:g} s.") from error
    except PrivateAddressError as error:
        raise CallError(NOT_PUBLIC) from error
    # ValueError: aiohttp refuses it, such as a header with a line feed.
    except (aiohttp.ClientError, ValueError, EncodingError, zlib.error) as error:
        raise CallError(
            f"The API cannot be reached ({type(error).__name__})."
        ) from error


def _fold(header: str) -> str:
    """Normalize the name of a header: servers that convert it to a variable treat _ like -."""
    return header.lower().replace("_", "-")
