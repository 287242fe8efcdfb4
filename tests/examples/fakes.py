"""Servers that answer as the vendors' do: by rule, and refusing what these refuse."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def answering(rule):
    """A server of `rule`, from a request's path and body to an answer; its URL, and what came.

    A failed assertion of the rule is a 400 with what it says.
    """
    came = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            came.append(body)
            try:
                status, answer = 200, rule(body)
            except AssertionError as error:
                status, answer = 400, {"error": {"message": str(error)}}
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", came
    finally:
        server.shutdown()
        server.server_close()
