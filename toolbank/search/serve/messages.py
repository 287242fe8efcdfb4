"""What a request to the server holds, and the shape of its responses."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard
from urllib.parse import unquote_to_bytes

from starlette.requests import Request
from starlette.responses import JSONResponse

from toolbank.search.catalogue import ALL, ToolFilter
from toolbank.search.finder import Answer

MOST_BODY = 1_000_000
"""Bytes of a body."""
MOST_QUERY = 10_000
"""Characters of a request."""
MOST_QUERIES = 256
MOST_HITS = 1_000
MOST_ANSWERED = 5_000
"""Hits that the requests of a batch may have together."""
MOST_CALLS = 16
"""Calls that are passed on at once."""
MOST_WAITING = 512
"""Searches that wait for their turn."""
SEARCH_TIME = 30.0
"""Seconds from when a search came until it is given up."""
BODY_TIME = 10.0
"""Seconds in which a whole body, or the head of a first request, has to come."""
STOP_TIME = 30
"""Seconds that searches in flight have when the server is stopped."""

_CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    413: "too_large",
    415: "unsupported_media_type",
    499: "client_left",
    500: "internal",
    503: "busy",
    504: "timeout",
}


class RefusalError(Exception):
    """A request that is answered with an error: its status, and a message for people."""

    def __init__(
        self, status: int, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers

    def response(self) -> JSONResponse:
        """It as the answer."""
        code = _CODES.get(self.status, "error")
        content = {"error": {"code": code, "message": self.message}}
        return JSONResponse(content, self.status, self.headers)


def describe_answer(answer: Answer) -> dict[str, Any]:
    """An `Answer` as JSON: without a calibration `calibrated` is false, and there is no `fits`."""
    content: dict[str, Any] = {
        "hits": [
            {
                "name": hit.tool.name,
                "score": round(hit.score, 6),
                "summary": hit.tool.summary,
            }
            for hit in answer.hits
        ]
    }
    if answer.fits is None:
        content["calibrated"] = False
    else:
        content["fits"] = answer.fits
    if answer.pinned:
        content["pinned"] = [
            {"name": tool.name, "summary": tool.summary} for tool in answer.pinned
        ]
    return content


_SHOWN = 80
_WHOLE, _NUMBER = (
    re.compile("-?[0-9]{1,9}"),
    re.compile("-?[0-9]{1,9}([.][0-9]{0,20})?(e-?[0-9]{1,2})?"),
)
_ONE, _MANY = ("k", "min_score", "retriever"), ("source", "kind", "tag")


@dataclass(frozen=True)
class SearchRequests:
    """Requests, and what is wanted for each."""

    queries: tuple[str, ...]
    k: int = 5
    min_score: float | None = None
    retriever: str | None = None
    wanted: ToolFilter = ALL


def read_address(request: Request) -> SearchRequests:
    """What `GET /search?q=..` asks for.

    Raises:
        RefusalError: a parameter is unknown, missing, given twice, or has a value that can't be.
    """
    try:
        unquote_to_bytes(request.scope["query_string"]).decode()
    except UnicodeDecodeError as error:
        raise RefusalError(400, "The address has bytes that are no UTF-8.") from error
    given = request.query_params
    _check_known(given.keys(), ("q", *_ONE, *_MANY), "parameter")
    for name in ("q", *_ONE):
        if len(given.getlist(name)) > 1:
            raise RefusalError(400, f"{name} is given twice.")
    if "q" not in given:
        raise RefusalError(400, "q is missing: what is asked for, as ?q=...")
    values: dict[str, Any] = {name: given[name] for name in _ONE if given.get(name)}
    values |= {name: [v for v in given.getlist(name) if v] for name in _MANY}
    for name, kind, written in (("k", int, _WHOLE), ("min_score", float, _NUMBER)):
        if name in values:
            if not written.fullmatch(values[name]):
                what = "whole number" if kind is int else "number"
                raise RefusalError(
                    400, f"{name} is {values[name][:_SHOWN]!r}, no {what}."
                )
            values[name] = kind(values[name])
    return _make([given["q"]], values)


def read_request(request: Request) -> str:
    """What `GET /nearest?q=..` asks for.

    Raises:
        RefusalError: as `read_address` does; there are no other parameters.
    """
    _check_known(request.query_params.keys(), ("q",), "parameter")
    return read_address(request).queries[0]


async def read_json(request: Request) -> Any:
    """The body, which has to be JSON.

    Raises:
        RefusalError: it is not.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RefusalError(
            415, "The body has to be JSON: Content-Type: application/json."
        )
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise RefusalError(415, "The body has to be plain, without Content-Encoding.")
    try:
        return json.loads(await request.body())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RefusalError(400, f"The body is no JSON ({error}).") from error
    # Python's own words for these are of Python.
    except (ValueError, RecursionError) as error:
        why = "too deep, or a number too long"
        raise RefusalError(400, f"The body is no JSON that is read ({why}).") from error


def read_body(content: Any) -> SearchRequests:
    """What `POST /search` asks for.

    Raises:
        RefusalError: a key is unknown or missing, or has a value that can't be.
    """
    if not isinstance(content, dict):
        raise RefusalError(400, 'The body has to be an object: {"queries": ["..."]}.')
    _check_known(content, ("queries", *_ONE, *_MANY), "key")
    queries = content.get("queries")
    if not _are_texts(queries):
        raise RefusalError(400, '"queries" has to be a list of texts.')
    if len(queries) > MOST_QUERIES:
        raise RefusalError(
            400, f"{len(queries):,} queries; at most {MOST_QUERIES} at once."
        )
    values = {name: content[name] for name in _ONE if content.get(name) is not None}
    for name in _MANY:
        value = content.get(name, [])
        values[name] = [value] if isinstance(value, str) else value
        if not _are_texts(values[name]):
            raise RefusalError(400, f'"{name}" has to be a text or a list of texts.')
    return _make(queries, values)


def _make(queries: Sequence[str], values: Mapping[str, Any]) -> SearchRequests:
    for query in queries:
        if not query.strip():
            raise RefusalError(400, "A request is empty.")
        if len(query) > MOST_QUERY:
            raise RefusalError(
                400, f"A request has {len(query):,} characters; at most {MOST_QUERY:,}."
            )
    k, least = values.get("k", 5), values.get("min_score")
    if type(k) is not int or not 1 <= k <= MOST_HITS:
        raise RefusalError(
            400, f"k is {_show(k)}; a whole number from 1 to {MOST_HITS:,}."
        )
    if len(queries) * k > MOST_ANSWERED:
        raise RefusalError(
            400,
            f"{len(queries)} queries with k {k}: {len(queries) * k:,} hits; at most "
            f"{MOST_ANSWERED:,} at once.",
        )
    if least is not None and (type(least) not in (int, float) or not 0 <= least <= 1):
        raise RefusalError(400, f"min_score is {_show(least)}; a number from 0 to 1.")
    retriever = values.get("retriever")
    if retriever is not None and not isinstance(retriever, str):
        raise RefusalError(400, "retriever has to be the name of one.")
    wanted = ToolFilter(*(frozenset(values[name]) for name in _MANY))
    return SearchRequests(tuple(queries), k, least, retriever, wanted)


def _show(value: Any) -> str:
    shown = json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."


def _check_known(given: Any, known: Sequence[str], what: str) -> None:
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        raise RefusalError(
            400,
            f"There is no {what} {unknown[:_SHOWN]!r}; there are {', '.join(known)}.",
        )


def _are_texts(value: Any) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)
