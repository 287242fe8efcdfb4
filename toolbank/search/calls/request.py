"""An HTTP request made of a tool's arguments, which can't reach out of their places."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from toolbank.bank.records import Argument, HttpCall
from toolbank.search.calls import CallError

_OURS = frozenset(
    [
        "host",
        "authorization",
        "cookie",
        "set-cookie",
        "content-length",
        "content-type",
        "transfer-encoding",
        "connection",
        "upgrade",
        "te",
        "trailer",
        "expect",
        "proxy-authorization",
        "proxy-connection",
        "forwarded",
        "keep-alive",
        "accept-encoding",
        "origin",
        "referer",
        "x-real-ip",
        "x-client-ip",
        "x-cluster-client-ip",
        "true-client-ip",
        "x-host",
    ]
)
"""Headers that no argument sets; further ones by how they begin."""
_OURS_BEGIN = (
    "proxy-",
    "sec-",
    "x-forwarded",
    "x-http-method",
    "x-method",
    "x-original-",
    "x-rewrite-",
)
_METHOD_IN_QUERY = re.compile(r"_method|_?http_?method|x[-_]http[-_]method.*", re.I)
"""Parameters that frameworks take for the method, so that a GET would be something else."""
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_TEMPLATE = re.compile(
    r"(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2}|{[^{}/]+})*)?"
)
"""What a path may be written of, with its places for arguments."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BETWEEN = {"spaceDelimited": " ", "pipeDelimited": "|"}


@dataclass(frozen=True)
class Prepared:
    """A request that can be sent: an address with everything encoded, and what goes with it."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


def prepare_request(
    base: str, call: HttpCall, arguments: Mapping[str, Any]
) -> Prepared:
    """Put a tool's arguments, which fit its schema, where the operation has them.

    The operation is data, too: its path can't lead out of the base's, nor can it set headers by
    which a request would pass for another.

    Raises:
        CallError: one has no place, or holds what can't stand there; or the operation is none that
            is passed on.
    """
    method = call.method.upper()
    if method not in _METHODS:
        raise CallError("The operation's method is none that is passed on.")
    _check_template(call.path)
    places = {argument.property: argument for argument in call.arguments}
    for name in arguments:
        if name not in places:
            raise CallError(f"There is no argument {name!r}.")
    path, query, headers = call.path, list[tuple[str, str]](), dict[str, str]()
    body: dict[str, Any] = {}
    whole: list[Any] = []
    for name, value in arguments.items():
        argument = places[name]
        said = argument.name or name
        if argument.place == "path":
            path = _fill(path, said, value, argument)
        elif argument.place == "query":
            query += _spread(said, value, argument)
        elif argument.place == "header":
            headers |= _header(said, value)
        elif argument.place == "cookie":
            raise CallError(f"{name}: a cookie, which is not passed on.")
        elif argument.name:
            body[argument.name] = value
        else:
            whole.append(value)
    if "{" in path:
        raise CallError(f"An argument of the path is missing: {path}.")
    if _climbs(_decode(path)):
        raise CallError("The path, with its arguments, leads out of its place.")
    content = whole[0] if whole else body
    data, kind = _write_body(call.content_type, content, bool(whole or body))
    if kind:
        headers["Content-Type"] = kind
    url = base.rstrip("/") + path
    for name, _ in query:
        if _METHOD_IN_QUERY.fullmatch(name):
            raise CallError(f"{name}: may turn the request into another method's.")
    if query:
        url += "?" + urlencode(query, quote_via=quote, safe="")
    if urlsplit(url).netloc != urlsplit(base).netloc:
        raise CallError("The path leads to another host.")
    return Prepared(method, url, headers, data)


def _check_template(path: str) -> None:
    """Refuse a path that would lead out of the base's, or reach further than the path.

    It is looked at as a server may read it: decoded, and decoded again.
    """
    read = _decode(re.sub("{[^{}/]+}", "x", path))
    if (
        not _TEMPLATE.fullmatch(path)
        or _climbs(read)
        or re.search(r"[\\\x00-\x1f\x7f?#]", read)
    ):
        raise CallError(
            "The operation's path holds what can't stand in one, or leads out of its place."
        )


def _decode(path: str) -> str:
    for _ in range(3):
        path = unquote(path)
    return path


def _climbs(path: str) -> bool:
    segments = (part.partition(";")[0] for part in re.split(r"[/\\]", path))
    return not {".", ".."}.isdisjoint(segments)


def _fill(path: str, name: str, value: Any, argument: Argument) -> str:
    """A path with a value in its segment, out of which it can't lead."""
    text = _join(value, "," if argument.style in ("", "simple") else _style(argument))
    if not text or _climbs(_decode(text)) or _CONTROL.search(text):
        raise CallError(f"{argument.property}: {text!r} can't stand in a path.")
    if f"{{{name}}}" not in path:
        raise CallError(f"{argument.property}: the path has no place for it.")
    return path.replace(f"{{{name}}}", quote(text, safe=""))


def _style(argument: Argument) -> str:
    raise CallError(
        f"{argument.property}: written in the style {argument.style}, which is not passed on."
    )


def _spread(name: str, value: Any, argument: Argument) -> list[tuple[str, str]]:
    """The pairs of a query that a value becomes, as of OpenAPI's styles."""
    if argument.style == "application/json":
        return [(name, json.dumps(value, ensure_ascii=False))]
    explode = argument.explode if argument.explode is not None else True
    if isinstance(value, Mapping):
        if argument.style == "deepObject":
            return [(f"{name}[{key}]", _text(one)) for key, one in value.items()]
        if explode:
            return [(str(key), _text(one)) for key, one in value.items()]
        flat = [part for key, one in value.items() for part in (str(key), _text(one))]
        return [(name, ",".join(flat))]
    if isinstance(value, Sequence) and not isinstance(value, str):
        between = _BETWEEN.get(argument.style)
        if between is None and explode:
            return [(name, _text(one)) for one in value]
        return [(name, (between or ",").join(map(_text, value)))]
    return [(name, _text(value))]


def _header(name: str, value: Any) -> dict[str, str]:
    text = _join(value, ",")
    # Servers that are given headers as variables can't tell "_" from "-".
    plain = name.lower().replace("_", "-")
    if plain in _OURS or plain.startswith(_OURS_BEGIN) or not _TOKEN.fullmatch(name):
        raise CallError(f"{name!r}: a header that no argument sets.")
    if _CONTROL.search(text) or not text.isascii():
        raise CallError(f"{name}: holds what a header can't.")
    return {name: text}


def _write_body(kind: str, content: Any, there: bool) -> tuple[bytes | None, str]:
    if not there:
        return None, ""
    if not kind.isascii() or _CONTROL.search(kind):
        raise CallError("The body's content type holds what a header can't.")
    plain = kind.partition(";")[0].strip().lower()
    if plain in ("", "application/json") or plain.endswith("+json"):
        return json.dumps(
            content, ensure_ascii=False
        ).encode(), kind or "application/json"
    if plain == "application/x-www-form-urlencoded" and isinstance(content, Mapping):
        pairs = [(name, _text(value)) for name, value in content.items()]
        return urlencode(pairs).encode(), plain
    if plain.startswith("text/") and isinstance(content, str):
        return content.encode(), plain
    raise CallError(f"The body is {kind}, which is not passed on.")


def _join(value: Any, between: str) -> str:
    if isinstance(value, Mapping):
        return between.join(f"{key},{_text(one)}" for key, one in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return between.join(map(_text, value))
    return _text(value)


def _text(value: Any) -> str:
    """A value as OpenAPI writes it; a whole number without a point, as JSON knows one kind only."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, ensure_ascii=False)
