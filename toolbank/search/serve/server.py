"""Run a server until it is stopped, and limit its connections."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from toolbank.search.serve.messages import (
    BODY_TIME,
    MOST_CALLS,
    STOP_TIME,
    RefusalError,
)
from toolbank.system.errors import InputError
from toolbank.system.terminal import print_message

_BACKLOG = 2048
_MOST_CONNECTIONS = 4096
_RESERVE = 4 * MOST_CALLS + 32
"""Descriptors for other uses: called servers, name lookups, a rotating log. In addition, as many are
kept free as were open at the start, for a newer version of each pack."""
_PAUSE = 0.2
"""Seconds until the next try after a connection could not be accepted."""
_KEEP_ALIVE = 15
"""Seconds that an idle connection is kept open."""
_TAKE_TIME = 15
"""Seconds in which a client has to read its response."""
_BUSY = RefusalError(
    503,
    "Too many connections at once. Try again.",
    {"Retry-After": "1", "Connection": "close"},
)


def open_socket(host: str, port: int) -> socket.socket:
    """Listen at an address.

    Raises:
        InputError: the port is in use or not allowed, or the address is not that of this machine.
    """
    if not 0 <= port <= 65535:
        raise InputError(f"--port {port}: not a port. Give one from 0 to 65535.")
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


def _explain(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "in use already. Stop the other program, or give another --port."
    if error.errno == errno.EACCES:
        return "not allowed. Ports below 1024 are reserved; give another --port."
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        return "not an address of this machine. Give another --host."
    return f"cannot listen ({error.strerror})."


def run_app(
    app: Starlette, listening: socket.socket, on_hangup: Callable[[], None]
) -> None:
    """Serve until SIGTERM or SIGINT; running requests are finished first."""
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

    server = _BoundedServer(config, find_most_connections())

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, on_hangup)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, server.stop)
        await server.serve([listening])

    asyncio.run(serve())


def find_most_connections() -> int:
    """Raise the limit of open files, and compute how many connections it allows.

    The reserve is kept free; if there are few descriptors, half are for connections.
    """
    try:
        import resource
    except ImportError:  # a system without such limits
        return _MOST_CONNECTIONS
    used = _count_descriptors()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_CONNECTIONS + _RESERVE + 2 * used
    if soft != resource.RLIM_INFINITY and soft < wanted:
        raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        # macOS has a limit of its own below the hard one.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
            soft = raised
    if soft == resource.RLIM_INFINITY:
        return _MOST_CONNECTIONS
    free = soft - used
    most = min(_MOST_CONNECTIONS, max(free - used - _RESERVE, free // 2, 1))
    if most < _MOST_CONNECTIONS:
        print_message(
            f"At most {most:,} connections at once: the limit of open files is {soft:,} "
            "(`ulimit -Hn`)."
        )
    return most


def _count_descriptors() -> int:
    try:
        return len(list(Path("/dev/fd").iterdir()))
    except OSError:
        return 64


class _BoundedServer(uvicorn.Server):
    """Limits the connections, and stops on request: at once if requested twice."""

    def __init__(self, config: uvicorn.Config, most: int) -> None:
        super().__init__(config)
        self._most = most
        self._reported: set[str] = set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the loop; uvicorn would raise them again at the end."""
        yield

    def stop(self) -> None:
        """Finish running requests, and stop."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and accept connections one by one, so that the limit holds."""
        await super().startup([])
        self._taking = [asyncio.create_task(self._take_all(s)) for s in sockets or ()]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections, and finish running requests."""
        for task in self._taking:
            task.cancel()
        await super().shutdown(sockets)

    async def _take_all(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                taken, _ = await loop.sock_accept(listening)
            except ConnectionAbortedError:
                continue
            except Exception as error:
                why = getattr(error, "strerror", None) or error
                self._report_once(f"A connection cannot be accepted ({why}).")
                await asyncio.sleep(_PAUSE)
                continue
            if not self._has_room():
                self._report_once(f"There are {self._most:,} connections.")
                _refuse(taken)
                continue
            try:
                await loop.connect_accepted_socket(self._make_protocol, taken)
            except Exception:  # it is closed already, or memory is short
                taken.close()

    def _make_protocol(self) -> _Patient:
        state = self.lifespan.state
        return _Patient(self.config, self.server_state, app_state=state)

    def _has_room(self) -> bool:
        """Make room for one more connection, if necessary by closing an idle one.

        Those without any request yet go first, and of these the oldest: real clients send a request
        at once.
        """
        if len(self.server_state.connections) < self._most:
            return True
        waiting = [
            one
            for one in self.server_state.connections
            if isinstance(one, _Patient) and one.is_idle
        ]
        if not waiting:
            return False
        self._report_once(f"There are {self._most:,} connections.")
        min(waiting, key=lambda one: (one.cycle is not None, one.since)).give_up()
        return True

    def _report_once(self, what: str) -> None:
        if what not in self._reported:
            self._reported.add(what)
            # Standard error may be closed.
            with suppress(OSError, ValueError):
                print_message(
                    f"{what} Idle ones are closed, new ones refused, and the others served. (Said "
                    "once.)"
                )


class _Patient(H11Protocol):
    """Closes connections whose request is late, or whose response is not read.

    An invalid request gets an error of the usual shape.
    """

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.since = self.loop.time()
        self._wait_for_request(BODY_TIME)

    @property
    def is_idle(self) -> bool:
        """Whether there is no complete request that waits for its response."""
        if self.cycle is None or self.cycle.more_body:
            return True
        is_taken = self.transport.get_write_buffer_size() == 0
        return bool(self.cycle.response_complete and is_taken)

    def give_up(self) -> None:
        """Close the connection to make room; a client that has sent nothing gets a 503."""
        if self.cycle is None:
            self.transport.write(_write_refusal(_BUSY))
        self.transport.close()
        self.transport.abort()
        self.connections.discard(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._untaken = asyncio.get_running_loop().call_later(
            _TAKE_TIME, self.transport.abort
        )

    def resume_writing(self) -> None:
        self._untaken.cancel()
        super().resume_writing()

    def on_response_complete(self) -> None:
        self.since = self.loop.time()
        self._wait_for_request(_KEEP_ALIVE + BODY_TIME)
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        self.transport.write(_write_refusal(RefusalError(400, msg)))
        self.transport.close()

    def _wait_for_request(self, seconds: float) -> None:
        before = self.cycle

        loop = asyncio.get_running_loop()

        def close_without_one() -> None:
            if self.cycle is before:
                self.transport.close()
                # Unread data would keep a closed connection open.
                loop.call_later(_TAKE_TIME, self.transport.abort)

        loop.call_later(seconds, close_without_one)


def _refuse(connection: socket.socket) -> None:
    with suppress(OSError), connection:
        connection.setblocking(False)
        connection.send(_write_refusal(_BUSY))
        connection.shutdown(socket.SHUT_WR)


def _write_refusal(refusal: RefusalError) -> bytes:
    """Write a complete response outside of a request."""
    answer = refusal.response()
    headers = {**dict(answer.raw_headers), b"connection": b"close"}
    lines = [b"%s: %s" % header for header in headers.items()]
    status = f"HTTP/1.1 {refusal.status} {HTTPStatus(refusal.status).phrase}".encode()
    return b"\r\n".join((status, *lines, b"", bytes(answer.body)))
