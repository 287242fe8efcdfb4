"""Running a server until it is told to stop."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import h11
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from toolbank.serve.answers import Refusal
from toolbank.serve.settings import BODY_TIME, STOP_TIME
from toolbank.system.errors import InputError

_BACKLOG = 2048
_MOST_CONNECTIONS = 4096
_KEEP_ALIVE = 15
"""Seconds that a connection is kept for another request."""
_TAKE_TIME = 15
"""Seconds in which a client has to take what it is answered."""
_BUSY = Refusal(
    503,
    "Too many connections at once. Ask again.",
    {"Retry-After": "1", "Connection": "close"},
)


def open_socket(host: str, port: int) -> socket.socket:
    """A socket that listens at an address.

    Raises:
        InputError: the port is in use, not allowed, or the address is not this machine's.
    """
    if not 0 <= port <= 65535:
        raise InputError(f"--port {port}: no port; 0 to 65535.")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = found[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        raise InputError(f"{host}:{port}: {_explain(error)}") from error
    listening.setblocking(False)
    return listening


def run_app(
    app: Starlette, listening: socket.socket, on_hangup: Callable[[], None]
) -> None:
    """Serve until SIGTERM or SIGINT; requests in flight are answered first."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        http=_Patient,
        ws="none",
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=STOP_TIME,
    )

    server = _Server(config)

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, on_hangup)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, server.stop)
        await server.serve([listening])

    asyncio.run(serve())


class _Server(uvicorn.Server):
    """Ends as it should when it is told to stop; at once when it is told twice."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the loop: uvicorn would raise them again at the end."""
        yield

    def stop(self) -> None:
        """Answer what is in flight, and end."""
        self.force_exit = self.should_exit
        self.should_exit = True


class _Patient(H11Protocol):
    """Closes a connection on which the head of a request doesn't come in time, or no answer is taken.

    What is no request, or comes on a connection too many, is answered as errors elsewhere are.
    """

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > _MOST_CONNECTIONS:
            self.app = _BUSY.response()
        self._wait_for_request(BODY_TIME)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._untaken = asyncio.get_running_loop().call_later(
            _TAKE_TIME, self.transport.abort
        )

    def resume_writing(self) -> None:
        self._untaken.cancel()
        super().resume_writing()

    def on_response_complete(self) -> None:
        self._wait_for_request(_KEEP_ALIVE + BODY_TIME)
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        answer = Refusal(400, msg).response()
        headers = [*answer.raw_headers, (b"connection", b"close")]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=bytes(answer.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _wait_for_request(self, seconds: float) -> None:
        before = self.cycle

        loop = asyncio.get_running_loop()

        def close_without_one() -> None:
            if self.cycle is before:
                self.transport.close()
                # What is not taken then keeps a closed connection, too.
                loop.call_later(_TAKE_TIME, self.transport.abort)

        loop.call_later(seconds, close_without_one)


def _explain(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "in use already. Stop what listens there, or give another --port."
    if error.errno == errno.EACCES:
        return "not allowed. Ports below 1024 are the system's; give another --port."
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        return "no address of this machine. Give another --host."
    return f"can't be listened at ({error.strerror})."
