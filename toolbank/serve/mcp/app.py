"""MCP over HTTP, as applications beside the other routes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolbank.serve.answers import Refusal
from toolbank.serve.mcp.calls import Calls
from toolbank.serve.mcp.server import create_mcp
from toolbank.serve.metrics import Metrics
from toolbank.serve.searches import Searches

if TYPE_CHECKING:
    from toolbank.calls.caller import Caller


def create_mcp_apps(searches: Searches, caller: Caller | None) -> list[Starlette]:
    """One at /mcp, for the first finder, and one behind each finder's name."""
    # Host and Origin are checked for all routes alike.
    checked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    calls = Calls(caller) if caller is not None else None
    names = searches.shelf.names
    apps = []
    for place, name in [("", names[0]), *((f"/{one}", one) for one in names)]:
        app = create_mcp(searches, name, calls).streamable_http_app(
            streamable_http_path=f"{place}/mcp",
            json_response=True,
            stateless_http=True,
            transport_security=checked,
        )
        # There is no session to listen to or to end: the other methods are not taken.
        app.router.routes = [
            Route(
                route.path,
                _Counted(route.endpoint, searches.metrics),
                methods=["POST"],
            )
            for route in app.routes
            if isinstance(route, Route)
        ]
        apps.append(app)
    return apps


class _Counted:
    """A route whose answers are counted, and which takes JSON alone."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.requests["/mcp", message["status"]] += 1
            await send(message)

        kind = Headers(scope=scope).get("content-type", "").partition(";")[0]
        try:
            if kind.strip().lower() != "application/json":
                raise Refusal(
                    415, "The body has to be JSON: Content-Type: application/json."
                )
            # Read here: what is wrong with a body is told in the shape of all errors.
            body = await Request(scope, receive).body()
        except Refusal as refusal:
            await refusal.response()(scope, receive, send_counted)
            return
        sent = False

        async def replay() -> Message:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, replay, send_counted)
