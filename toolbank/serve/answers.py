"""What a server answers with: JSON, and errors of one shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse

from toolbank.packed.finder import Answer

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


class Refusal(Exception):  # noqa: N818 - an answer like others
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
