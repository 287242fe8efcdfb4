"""A folder of pages served from loopback by a process of its own, and the requests counted."""

import http.server
import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path


@dataclass(frozen=True)
class Served:
    """Where the pages are, and how many requests have been answered since the start."""

    url: str
    requests: Callable[[], int]


@contextmanager
def serve(folder: Path) -> Iterator[Served]:
    context = multiprocessing.get_context("spawn")
    counter = context.Value("q", 0)
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(folder, counter, theirs))
    process.start()
    try:
        yield Served(f"http://127.0.0.1:{ours.recv()}/", lambda: counter.value)
    finally:
        process.terminate()
        process.join()


class _Pages(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections are kept
    disable_nagle_algorithm = True
    counter: Synchronized  # type: ignore[type-arg]

    def send_response(self, code: int, message: str | None = None) -> None:
        with self.counter.get_lock():
            self.counter.value += 1
        super().send_response(code, message)

    def log_message(self, *_: object) -> None: ...


def _serve(folder: Path, counter: "Synchronized[int]", parent: Connection) -> None:
    _Pages.counter = counter
    handler = partial(_Pages, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        parent.send(server.server_address[1])
        server.serve_forever()
