"""The server as an ASGI application: access control, the page and the routes."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolbank.search.serve.api import Api
from toolbank.search.serve.messages import BODY_TIME, MOST_BODY, RefusalError
from toolbank.system.errors import InputError

if TYPE_CHECKING:
    from toolbank.search.calls.caller import ToolCaller

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s\[\]:/?#@\\]+)(?::[0-9]{0,5})?")
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}


KEY_VARIABLE = "TOOLBANK_API_KEY"


@dataclass(frozen=True)
class Access:
    """Who may use the server: the key ("" for none), and the host names of the server."""

    key: str = ""
    names: frozenset[str] = frozenset()

    def knows(self, name: str) -> bool:
        """Check a name of the header Host, without the port.

        Allowed are IP addresses, which DNS rebinding cannot change, localhost, and the given names.
        """
        name = name.strip("[]").casefold()
        return name in self.names or name == "localhost" or _is_address(name)


def make_access(host: str, key: str, names: list[str], *, without_key: bool) -> Access:
    """Decide who may use a server at an address.

    Raises:
        InputError: others could use it without a key, or no client can send the key.
    """
    given, key = ("", "") if without_key else (key, key.strip())
    if given and not (key and key.isascii() and key.isprintable()):
        raise InputError(
            f"{KEY_VARIABLE}: no client can send this key. Use ASCII letters, digits and "
            "punctuation."
        )
    if not key and not without_key and not _is_loopback(host):
        raise InputError(
            f"--host {host}: others can reach it, so a key is needed. Set {KEY_VARIABLE}, "
            "or give --no-key to allow everybody."
        )
    return Access(key, frozenset(name.casefold() for name in (*names, host)))


def _is_loopback(host: str) -> bool:
    if not _is_address(host):
        return host == "localhost"
    return ipaddress.ip_address(host).is_loopback


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class Guard:
    """Refuses requests with a wrong host name, origin or key, and those that are too large.

    GET and HEAD of exactly the paths in `free` need no key.
    """

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        free: frozenset[str],
        count: Callable[[int], None],
    ) -> None:
        """Call `count` with the status of each refusal."""
        self._app, self._access, self._free, self._count = app, access, free, count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def send_guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            self._check(scope)
            body = _Body(receive, scope)
            await self._app(scope, body.receive, send_guarded)
        except RefusalError as refusal:
            self._count(refusal.status)
            if not started:
                await refusal.response()(scope, receive, send_guarded)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        named = _HOST.fullmatch(host)
        if not named or not self._access.knows(named[1]):
            name = named[1] if named else host
            raise RefusalError(
                403,
                f"{name[:200]!r} is not a name of this server. Start it with --allow-host and "
                "the name.",
            )
        origin = headers.get("origin")
        if origin not in (None, f"http://{host}", f"https://{host}"):
            raise RefusalError(
                403, "Requests from pages of other origins are not answered."
            )
        is_free = scope["method"] in ("GET", "HEAD") and scope["path"] in self._free
        if self._access.key and not is_free:
            self._check_key(headers.get("authorization", ""))

    def _check_key(self, given: str) -> None:
        kind, _, key = given.partition(" ")
        right = hmac.compare_digest(key.strip().encode(), self._access.key.encode())
        if kind.lower() != "bearer" or not right:
            needed = "An API key is required: Authorization: Bearer KEY."
            raise RefusalError(
                401,
                "The API key is wrong." if key else needed,
                {"WWW-Authenticate": "Bearer"},
            )


class _Body:
    """A body with a time limit and a maximum size."""

    def __init__(self, receive: Receive, scope: Scope) -> None:
        self._receive, self._read, self._ended = receive, 0, False
        self._is_needed = scope["method"] == "POST"
        self._until = asyncio.get_running_loop().time() + BODY_TIME
        said = Headers(scope=scope).get("content-length", "0")
        if not said.isdecimal() or int(said) > MOST_BODY:
            raise _too_large()

    async def receive(self) -> Message:
        """Receive the next part.

        Raises:
            RefusalError: the body is too large or too slow, or the client disconnected.
        """
        if self._ended:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError as error:
            raise RefusalError(
                408, f"The body did not arrive within {BODY_TIME:g} s."
            ) from error
        if message["type"] == "http.disconnect" and self._is_needed:
            raise RefusalError(
                499, "The client disconnected before the end of the body."
            )
        self._read += len(message.get("body", b""))
        self._ended = not message.get("more_body", False)
        if self._read > MOST_BODY:
            raise _too_large()
        return message


def _too_large() -> RefusalError:
    return RefusalError(413, f"The body is larger than {MOST_BODY:,} bytes.")


_KINDS = {
    "index.html": "text/html; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
}


def page_routes(names: tuple[str, ...]) -> list[Route]:
    """Make the routes of the page and its files, at the root and under each finder's name."""
    here = files("toolbank.search.serve") / "page"
    found: dict[str, Response] = {
        path: Response((here / name).read_bytes(), media_type=_KINDS[name])
        for path, name in page_paths(names).items()
    }
    found |= {f"/{name}": RedirectResponse(f"/{name}/") for name in names}
    return [Route(path, page, methods=["GET"]) for path, page in found.items()]


def page_paths(names: tuple[str, ...]) -> dict[str, str]:
    """Map the paths of the page to its files."""
    return {
        f"{prefix}/" + ("" if name == "index.html" else name): name
        for prefix in ("", *(f"/{name}" for name in names))
        for name in _KINDS
    }


_MESSAGES = {
    404: "There is nothing at this address. /openapi.json lists the routes.",
    405: "This address does not support the method.",
}


def create_app(
    api: Api,
    access: Access,
    beside: Sequence[Starlette] = (),
    caller: ToolCaller | None = None,
) -> Starlette:
    """Make the application for an API and `beside`, whose routes are guarded in the same way.

    At the end, the sessions of `caller` are ended.
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
                if caller is not None:
                    await caller.close()

    # The page itself contains no tools.
    free = frozenset({"/healthz", *page_paths(api.shelf.names)})
    routes = [route for other in beside for route in other.routes]
    return Starlette(
        routes=[*api.routes(), *routes, *page_routes(api.shelf.names)],
        middleware=[Middleware(Guard, access=access, free=free, count=count_refused)],
        exception_handlers={
            HTTPException: _answer_http_error,
            Exception: _answer_fault,
        },
        lifespan=live,
    )


async def _answer_http_error(request: Request, error: Exception) -> Response:  # noqa: ARG001
    assert isinstance(error, HTTPException)
    message = _MESSAGES.get(error.status_code, str(error.detail))
    if allowed := (error.headers or {}).get("Allow"):
        message += f" It supports {', '.join(sorted(allowed.split(', ')))}."
    return RefusalError(error.status_code, message, error.headers).response()


async def _answer_fault(request: Request, error: Exception) -> Response:  # noqa: ARG001
    return RefusalError(500, "The server failed; its terminal shows why.").response()
