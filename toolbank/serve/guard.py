"""What every request goes through first, whatever its route."""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolbank.serve.answers import Refusal
from toolbank.serve.settings import BODY_TIME, MOST_BODY, Access

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


class Guard:
    """Refuses what comes by another name, from another origin, without the key, or is too large.

    GET and HEAD of the paths in `free`, to the letter, need no key.
    """

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        free: frozenset[str],
        count: Callable[[int], None],
    ) -> None:
        """`count` is told the status of each refusal."""
        self._app, self._access, self._free, self._count = app, access, free, count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it."""
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
        except Refusal as refusal:
            self._count(refusal.status)
            if not started:
                await refusal.response()(scope, receive, send_guarded)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        named = _HOST.fullmatch(host)
        if not named or not self._access.knows(named[1]):
            name = named[1] if named else host
            raise Refusal(
                403,
                f"This server is not known by the name {name[:200]!r}. Start it with "
                "--allow-host and the name.",
            )
        origin = headers.get("origin")
        if origin not in (None, f"http://{host}", f"https://{host}"):
            raise Refusal(403, "Requests from pages of other origins are not answered.")
        is_free = scope["method"] in ("GET", "HEAD") and scope["path"] in self._free
        if self._access.key and not is_free:
            self._check_key(headers.get("authorization", ""))

    def _check_key(self, given: str) -> None:
        kind, _, key = given.partition(" ")
        right = hmac.compare_digest(key.strip().encode(), self._access.key.encode())
        if kind.lower() != "bearer" or not right:
            needed = "An API key is needed, as the header Authorization: Bearer KEY."
            raise Refusal(
                401,
                "The API key is another." if key else needed,
                {"WWW-Authenticate": "Bearer"},
            )


class _Body:
    """A body that is read in time, and up to a size."""

    def __init__(self, receive: Receive, scope: Scope) -> None:
        self._receive, self._read, self._ended = receive, 0, False
        self._is_needed = scope["method"] == "POST"
        self._until = asyncio.get_running_loop().time() + BODY_TIME
        said = Headers(scope=scope).get("content-length", "0")
        if not said.isdecimal() or int(said) > MOST_BODY:
            raise _too_large()

    async def receive(self) -> Message:
        """The next part.

        Raises:
            Refusal: it is too large, does not come, or the client left before its end.
        """
        if self._ended:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError as error:
            raise Refusal(408, f"The body did not come in {BODY_TIME:g} s.") from error
        if message["type"] == "http.disconnect" and self._is_needed:
            raise Refusal(499, "The client left before the end of the body.")
        self._read += len(message.get("body", b""))
        self._ended = not message.get("more_body", False)
        if self._read > MOST_BODY:
            raise _too_large()
        return message


def _too_large() -> Refusal:
    return Refusal(413, f"The body is larger than {MOST_BODY:,} bytes.")
