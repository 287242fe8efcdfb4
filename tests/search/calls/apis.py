"""A real HTTP API on loopback, which notes what comes."""

import json
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def serving_api():
    """The API's address, and the list of what came: method, path, headers, body."""

    def answer(path):
        if "redirect" in path:
            place = {"Location": "http://169.254.169.254/latest/meta-data"}
            return 302, place, b""
        if "slow" in path:
            time.sleep(3)
        body = (
            b"x" * 3_000_000 if "huge" in path else json.dumps({"path": path}).encode()
        )
        return 500 if "broken" in path else 200, {}, body

    came = []
    with running(_make_handler(came, lambda: answer(came[-1][1]))) as address:
        yield address, came


@contextmanager
def serving_answers(answer):
    """The address of an API that answers all alike, and the list of the headers that came.

    `answer` makes of what came, its headers, the status, headers and body of the answer.
    """
    came, headers = [], []

    def respond():
        headers.append(came[-1][2])
        return answer(headers[-1])

    with running(_make_handler(came, respond)) as address:
        yield address, headers


def _make_handler(came, respond):
    class Handler(BaseHTTPRequestHandler):
        def answer(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            came.append((self.command, self.path, dict(self.headers), body))
            status, headers, content = respond()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(content)

        do_GET = do_POST = do_DELETE = answer  # noqa: N815

        def log_message(self, *arguments):
            pass

    return Handler


@contextmanager
def running(handler):
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    # A client that has enough of an answer closes the connection.
    server.handle_error = lambda *_: None
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
