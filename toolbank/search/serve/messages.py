"""The requests to the server, which are checked, and the content of its responses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self, TypeVar
from urllib.parse import unquote_to_bytes

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema
from starlette.requests import Request
from starlette.responses import JSONResponse

from toolbank.bank.records import Tool
from toolbank.config.explain import first_problem
from toolbank.search.catalogue import ToolFilter
from toolbank.search.finder import Answer
from toolbank.system.text import decode_json

MOST_BODY = 1_000_000
"""The maximum size of a body, in bytes."""
MOST_QUERY = 10_000
"""The maximum length of a request, in characters."""
MOST_QUERIES = 256
MOST_HITS = 1_000
MOST_ANSWERED = 5_000
"""The maximum number of hits of a batch."""
MOST_CALLS = 16
"""The maximum number of concurrent tool calls."""
MOST_WAITING = 512
"""The maximum number of queued searches."""
BODY_TIME = 10.0
"""Seconds in which a body, or the head of the first request, has to arrive."""
STOP_TIME = 30
"""Seconds that running searches have to finish when the server stops."""

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
    502: "bad_gateway",
    503: "busy",
    504: "timeout",
}


class RefusalError(Exception):
    """A request is answered with an error: its HTTP status, and a message for people."""

    def __init__(
        self, status: int, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers

    def response(self) -> JSONResponse:
        """Make the response."""
        code = _CODES.get(self.status, "error")
        content = {"error": {"code": code, "message": self.message}}
        return JSONResponse(content, self.status, self.headers)


def _optional(description: str | None = None) -> Any:
    """Make the field of a key that is absent without a value: its schema has no null either."""
    return Field(None, description=description, json_schema_extra=_omit_default)


def _omit_default(schema: dict[str, Any]) -> None:
    del schema["default"]


class HitContent(BaseModel):
    """A hit of an answer."""

    name: str
    score: Annotated[float, Field(ge=0, le=1)] = Field(
        description="how likely the tool is needed; only a rank if calibrated is false"
    )
    summary: str


class ToolSummary(BaseModel):
    """A pinned tool."""

    name: str
    summary: str


class AnswerContent(BaseModel):
    """The answer to a search; keys without a value are absent."""

    hits: list[HitContent]
    fits: bool | SkipJsonSchema[None] = _optional(
        "false: probably none of the hits serves the request; absent without a calibration"
    )
    calibrated: Literal[False] | SkipJsonSchema[None] = _optional(
        "scores only rank the hits; absent if they are probabilities"
    )
    pinned: list[ToolSummary] | SkipJsonSchema[None] = _optional()
    id: str | SkipJsonSchema[None] = _optional("identifies the search in /feedback")


class BatchContent(BaseModel):
    """The answers to a batch of searches, in their order."""

    results: list[AnswerContent]


class NearContent(BaseModel):
    """A request of the bank."""

    query: str
    tools: tuple[str, ...]


class NearestContent(BaseModel):
    """The nearest requests, best first."""

    requests: list[NearContent]


class ErrorDetail(BaseModel):
    """A code for programs and a message for people."""

    code: str
    message: str


class ErrorContent(BaseModel):
    """The shape of all errors."""

    error: ErrorDetail


def describe_answer(answer: Answer) -> dict[str, Any]:
    """Make the JSON of an answer: `calibrated` is false without a calibration, else there is `fits`."""
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
        content["pinned"] = list_summaries(answer.pinned)
    return content


def list_summaries(tools: Iterable[Tool]) -> list[dict[str, str]]:
    """List the names and summaries of tools."""
    return [{"name": tool.name, "summary": tool.summary} for tool in tools]


def _check_query(query: str) -> str:
    if not query.strip():
        raise ValueError("is empty")
    return query


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


QueryText = Annotated[
    str, Field(min_length=1, max_length=MOST_QUERY), AfterValidator(_check_query)
]
HitCount = Annotated[int, Field(ge=1, le=MOST_HITS)]
MinScore = Annotated[
    float,
    Field(
        ge=0,
        le=1,
        allow_inf_nan=False,
        description="the lowest score of a hit; unset, hits of any score are given",
    ),
]
_Values = Annotated[tuple[str, ...], BeforeValidator(_as_list), Strict(False)]


class RequestModel(BaseModel):
    """The parameters or the body of a request."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class SearchParameters(RequestModel):
    """The parameters of all searches."""

    k: HitCount = 5
    min_score: MinScore | SkipJsonSchema[None] = _optional()
    retriever: str | SkipJsonSchema[None] = _optional()
    source: _Values = ()
    kind: _Values = ()
    tag: _Values = ()

    @field_validator("k", mode="before")
    @classmethod
    def _set_default(cls, k: Any) -> Any:
        return 5 if k is None else k

    @property
    def filter(self) -> ToolFilter:
        """The tools that may be hits."""
        return ToolFilter(*map(frozenset, (self.source, self.kind, self.tag)))


class SearchQuery(SearchParameters):
    """The parameters of GET /search."""

    q: QueryText


class SearchBatch(SearchParameters):
    """The body of POST /search."""

    queries: Annotated[list[QueryText], Field(max_length=MOST_QUERIES)]

    @model_validator(mode="after")
    def _check_hits(self) -> Self:
        hits = len(self.queries) * self.k
        if hits > MOST_ANSWERED:
            raise ValueError(
                f"{len(self.queries)} queries with k {self.k}: {hits:,} hits; at most "
                f"{MOST_ANSWERED:,} at once"
            )
        return self


class NearestQuery(RequestModel):
    """The parameters of GET /nearest."""

    q: QueryText


class ToolChoice(BaseModel):
    """The body of POST /feedback: the ID of a search, and the name of the chosen tool.

    An empty name says that no tool fits.
    """

    model_config = ConfigDict(strict=True)

    search: str
    tool: str


_WHOLE = re.compile("-?[0-9]{1,9}")
_NUMBER = re.compile("-?[0-9]{1,9}([.][0-9]{0,20})?(e-?[0-9]{1,2})?")
_MANY = ("source", "kind", "tag")
_SHOWN = 80
_Model = TypeVar("_Model", bound=BaseModel)


def check_content(model: type[_Model], content: Any) -> _Model:
    """Check the parameters or the body of a request.

    Raises:
        RefusalError: one is unknown, missing or has an invalid value.
    """
    try:
        return model.model_validate(content)
    except ValidationError as error:
        problem = error.errors()[0]
        message = first_problem(error)
        if problem["type"] == "extra_forbidden":
            name = str(problem["loc"][0])[:_SHOWN]
            message = (
                f"no parameter {name!r}; there are: {', '.join(model.model_fields)}"
            )
        raise RefusalError(400, f"{message}.") from error


def read_parameters(request: Request, model: type[_Model]) -> _Model:
    """Read the parameters in the address of a request.

    Raises:
        RefusalError: the address is not UTF-8, a parameter is given twice, or as `check_content`.
    """
    try:
        unquote_to_bytes(request.scope["query_string"]).decode()
    except UnicodeDecodeError as error:
        raise RefusalError(400, "The address has bytes that are not UTF-8.") from error
    values: dict[str, Any] = {}
    for name, value in request.query_params.items():
        given = request.query_params.getlist(name)
        if name in _MANY:
            values[name] = tuple(filter(None, given))
        elif len(given) > 1:
            raise RefusalError(400, f"{name[:_SHOWN]!r} is given twice.")
        elif name == "k" and _WHOLE.fullmatch(value):
            values[name] = int(value)
        elif name == "min_score" and _NUMBER.fullmatch(value):
            values[name] = float(value)
        elif value or name not in SearchParameters.model_fields:
            values[name] = value
    return check_content(model, values)


async def read_body(request: Request, model: type[_Model]) -> _Model:
    """Read the body of a request, which has to be JSON.

    Raises:
        RefusalError: it is not, or as `check_content`.
    """
    require_json(request.headers)
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise RefusalError(415, "The body has to be plain, without Content-Encoding.")
    try:
        content = decode_json(await request.body())
    except ValueError as error:
        raise RefusalError(400, f"The body is not JSON ({error}).") from error
    if not isinstance(content, dict):
        raise RefusalError(400, "The body has to be a JSON object.")
    return check_content(model, content)


def require_json(headers: Mapping[str, str]) -> None:
    """Refuse a body whose content type is not JSON.

    Raises:
        RefusalError: it is another one.
    """
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RefusalError(
            415, "The body has to be JSON: Content-Type: application/json."
        )
