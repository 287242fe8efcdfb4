"""A real HTTP API on loopback, which notes what comes."""

import json
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def serving_api():
    """The API's address, and the list of what came: method, path, headers, body."""
    came = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            came.append((self.command, self.path, dict(self.headers), body))
            status, content = 200, json.dumps({"path": self.path}).encode()
            if "redirect" in self.path:
                self.send_response(302)
                self.send_header("Location", "http://169.254.169.254/latest/meta-data")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            if "huge" in self.path:
                content = b"x" * 3_000_000
            if "slow" in self.path:
                time.sleep(3)
            if "broken" in self.path:
                status = 500
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(content)

        do_GET = do_POST = do_DELETE = answer  # noqa: N815

        def log_message(self, *arguments):
            pass

    with running(Handler) as address:
        yield address, came


@contextmanager
def serving_answers(answer):
    """The address of an API that answers all alike, and the list of the headers that came.

    `answer` makes of what came, its headers, the status, headers and body of the answer.
    """
    came = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            came.append(dict(self.headers))
            status, headers, body = answer(came[-1])
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(body)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *arguments):
            pass

    with running(Handler) as address:
        yield address, came


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
