"""Servers that answer as the vendors' do: by rule, and refusing what these refuse."""

import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

from tests.search.calls.apis import running


@contextmanager
def answering(rule):
    """A server of `rule`, from a request's body to an answer; its URL, and what came.

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

    with running(Handler) as address:
        yield address, came
