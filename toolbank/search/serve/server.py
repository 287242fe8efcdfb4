"""Running a server until it is told to stop."""

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
"""Descriptors that are no connection's: of servers that are called, names that are looked up, a log
that begins anew. As many as were open at the start come on top, for a newer version of each pack."""
_PAUSE = 0.2
"""Seconds until it is tried again to take a connection, where the system gave none."""
_KEEP_ALIVE = 15
"""Seconds that a connection is kept for another request."""
_TAKE_TIME = 15
"""Seconds in which a client has to take what it is answered."""
_BUSY = RefusalError(
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

    server = _BoundedServer(config, find_most_connections())

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, on_hangup)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, server.stop)
        await server.serve([listening])

    asyncio.run(serve())


def find_most_connections() -> int:
    """How many connections there are descriptors for; the limit is raised as far as it may be.

    Beyond the reserve; of few descriptors, half are for connections.
    """
    try:
        import resource
    except ImportError:  # of a system without such limits
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
    """Takes so many connections at most, and ends when it is told to; at once when told twice."""

    def __init__(self, config: uvicorn.Config, most: int) -> None:
        super().__init__(config)
        self._most = most
        self._told: set[str] = set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the loop: uvicorn would raise them again at the end."""
        yield

    def stop(self) -> None:
        """Answer what is in flight, and end."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and take connections one at a time: so there are never more than may be."""
        await super().startup([])
        self._taking = [asyncio.create_task(self._take_all(s)) for s in sockets or ()]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections, and wait for what is in flight."""
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
                self._tell_once(f"A connection can't be taken ({why}).")
                await asyncio.sleep(_PAUSE)
                continue
            if not self._has_room():
                self._tell_once(f"There are {self._most:,} connections.")
                _refuse(taken)
                continue
            try:
                await loop.connect_accepted_socket(self._make_protocol, taken)
            except Exception:  # it is gone already, or there is no memory for it
                taken.close()

    def _make_protocol(self) -> _Patient:
        state = self.lifespan.state
        return _Patient(self.config, self.server_state, app_state=state)

    def _has_room(self) -> bool:
        """Whether one more connection can be taken, if need be in place of one that asks nothing.

        First of those that have asked for nothing yet, and of these the oldest: a client that is
        served asks at once.
        """
        if self._open < self._most:
            return True
        waiting = [
            one
            for one in self.server_state.connections
            if isinstance(one, _Patient) and one.is_idle
        ]
        if not waiting:
            return False
        self._tell_once(f"There are {self._most:,} connections.")
        min(waiting, key=lambda one: (one.cycle is not None, one.since)).give_up()
        return True

    @property
    def _open(self) -> int:
        return len(self.server_state.connections)

    def _tell_once(self, what: str) -> None:
        if what not in self._told:
            self._told.add(what)
            # Standard error may be closed.
            with suppress(OSError, ValueError):
                print_message(
                    f"{what} Those that ask for nothing are closed, further ones refused, and the "
                    "others served. (Said once.)"
                )


class _Patient(H11Protocol):
    """Closes a connection on which the head of a request doesn't come in time, or no answer is taken.

    What is no request is answered as errors elsewhere are.
    """

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.since = self.loop.time()
        self._wait_for_request(BODY_TIME)

    @property
    def is_idle(self) -> bool:
        """Whether no request is here as a whole that is not answered yet."""
        if self.cycle is None or self.cycle.more_body:
            return True
        is_taken = self.transport.get_write_buffer_size() == 0
        return bool(self.cycle.response_complete and is_taken)

    def give_up(self) -> None:
        """Close the connection to free its place; a client that has sent nothing gets a 503."""
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
                # What is not taken then keeps a closed connection, too.
                loop.call_later(_TAKE_TIME, self.transport.abort)

        loop.call_later(seconds, close_without_one)


def _refuse(connection: socket.socket) -> None:
    with suppress(OSError), connection:
        connection.setblocking(False)
        connection.send(_write_refusal(_BUSY))
        connection.shutdown(socket.SHUT_WR)


def _write_refusal(refusal: RefusalError) -> bytes:
    """A whole answer, outside of a request."""
    answer = refusal.response()
    headers = {**dict(answer.raw_headers), b"connection": b"close"}
    lines = [b"%s: %s" % header for header in headers.items()]
    status = f"HTTP/1.1 {refusal.status} {HTTPStatus(refusal.status).phrase}".encode()
    return b"\r\n".join((status, *lines, b"", bytes(answer.body)))


def _explain(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "in use already. Stop what listens there, or give another --port."
    if error.errno == errno.EACCES:
        return "not allowed. Ports below 1024 are the system's; give another --port."
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        return "no address of this machine. Give another --host."
    return f"can't be listened at ({error.strerror})."
