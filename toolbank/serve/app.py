"""The server as an ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response

from toolbank.serve.answers import Refusal
from toolbank.serve.api import Api
from toolbank.serve.guard import Guard
from toolbank.serve.pages import page_paths, page_routes
from toolbank.serve.settings import Access

_MESSAGES = {
    404: "There is nothing at this address; /openapi.json has what there is.",
    405: "This address does not take that method.",
}


def create_app(api: Api, access: Access, beside: Sequence[Starlette] = ()) -> Starlette:
    """An application that answers for the finders of an api's shelf.

    The routes of `beside` are guarded like all else, and their lifespans are run.
    """

    def count_refused(status: int) -> None:
        api.metrics.requests["refused", status] += 1

    @asynccontextmanager
    async def live(app: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for other in beside:
                await stack.enter_async_context(other.router.lifespan_context(app))
            watching = asyncio.create_task(api.shelf.watch())
            try:
                yield
            finally:
                watching.cancel()
                api.pool.close()

    # The page holds nothing of the tools.
    free = frozenset({"/healthz", *page_paths(api.shelf.names)})
    routes = [route for other in beside for route in other.routes]
    return Starlette(
        routes=[*api.routes(), *routes, *page_routes(api.shelf.names)],
        middleware=[Middleware(Guard, access=access, free=free, count=count_refused)],
        exception_handlers={
            HTTPException: _answer_http_error,
            Refusal: _answer_refusal,
            Exception: _answer_fault,
        },
        lifespan=live,
    )


async def _answer_http_error(request: Request, error: Exception) -> Response:  # noqa: ARG001
    assert isinstance(error, HTTPException)
    message = _MESSAGES.get(error.status_code, str(error.detail))
    if allowed := (error.headers or {}).get("Allow"):
        message += f" It takes {', '.join(sorted(allowed.split(', ')))}."
    return Refusal(error.status_code, message, error.headers).response()


async def _answer_refusal(request: Request, error: Exception) -> Response:  # noqa: ARG001
    assert isinstance(error, Refusal)
    return error.response()


async def _answer_fault(request: Request, error: Exception) -> Response:  # noqa: ARG001
    return Refusal(
        500, "The server could not answer; its terminal says why."
    ).response()
