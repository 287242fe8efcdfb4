"""A server of packed finders in a process of its own, and requests to it."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

KEY = "a-key-that-is-nowhere-to-be-seen"


@dataclass
class Answer:
    status: int
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]["code"]


@dataclass
class Server:
    process: subprocess.Popen
    host: str
    port: int
    errors: list = field(default_factory=list)

    def ask(self, path, body=None, method=None, **headers):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        try:
            connection.request(
                method or ("GET" if body is None else "POST"), path, body, headers
            )
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def end(self):
        """Stop it, as an administrator does; what it said on stderr."""
        self.process.terminate()
        said = self.process.stderr.read()
        assert self.process.wait(60) == 0
        return said

    def read_errors(self):
        for line in self.process.stderr:
            self.errors.append(line)
            yield line


@contextmanager
def serving(*arguments, key="", limit=""):
    """`toolbank serve` with these arguments, at a free port, until the block ends.

    `limit` is what `ulimit` is told for its process alone.
    """
    environment = {**os.environ, "TOOLBANK_API_KEY": key}
    command = [sys.executable, "-m", "toolbank", "serve", *arguments, "--port", "0"]
    if limit:
        command = ["sh", "-c", f'ulimit {limit}; exec "$0" "$@"', *command]
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    command = list(map(str, command))
    process = subprocess.Popen(command, **pipes, text=True, env=environment)
    try:
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, line + process.stderr.read()
        address = urlsplit(found[0])
        yield Server(process, address.hostname, address.port)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
