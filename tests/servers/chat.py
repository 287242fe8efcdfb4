"""A chat-completions server on loopback, scripted by a function.

    with ChatServer(lambda call: Answer.json({"query": "..."})) as server:
        config = GenerateConfig(engine="openai", base_url=server.url, model="m")

The script gets each `Call` and returns an `Answer`. `server.calls` holds what was asked.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.servers.named import forget_host, name_host


@dataclass(frozen=True)
class Call:
    """A request as it came in; `number` counts from 0 over the server's life."""

    number: int
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        return "\n".join(message["content"] for message in self.body["messages"])

    @property
    def format(self) -> str:
        """The kind of response_format that was asked for; "text" where none was."""
        return self.body.get("response_format", {}).get("type", "text")

    @property
    def offered(self) -> list[str]:
        """The names of the tools that the prompt shows; [] where it asks for polish."""
        shown = self.prompt.partition("\n# Tools\n")[2].partition("\n# ")[0]
        return re.findall(r"^- ([^:]+): ", shown, re.MULTILINE)

    @property
    def asked_for(self) -> str:
        """The tool that asks are wanted for; "" where the prompt wants something else."""
        found = re.search(r"^# The tool\n\n(\S+) \(", self.prompt, re.MULTILINE)
        return found[1] if found else ""

    @property
    def keys(self) -> list[str]:
        """The keys of the answer that the request's schema asks for."""
        schema = self.body["response_format"]["json_schema"]["schema"]
        return list(schema["properties"])

    @property
    def asks_polish(self) -> bool:
        return '"already_good"' in self.prompt


@dataclass(frozen=True)
class Answer:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0
    reset: bool = False

    @classmethod
    def text(
        cls,
        content: str | None,
        *,
        finish_reason: str = "stop",
        delay: float = 0,
        **message: Any,
    ) -> Answer:
        """A completion whose message is `content`."""
        completion = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": "served-model",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": finish_reason,
                    "message": {"role": "assistant", "content": content, **message},
                }
            ],
            "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
        }
        return cls(
            body=json.dumps(completion).encode(),
            headers={"Content-Type": "application/json"},
            delay=delay,
        )

    @classmethod
    def json(cls, value: Any, *, before: str = "", after: str = "") -> Answer:
        """A completion that holds a JSON object, and prose around it if wanted."""
        return cls.text(before + json.dumps(value) + after)

    @classmethod
    def error(cls, status: int, message: str = "no", **headers: str) -> Answer:
        """An error as OpenAI's API words it; write headers as Retry_After="1"."""
        return cls(
            status=status,
            body=json.dumps({"error": {"message": message, "type": "error"}}).encode(),
            headers={
                "Content-Type": "application/json",
                **{name.replace("_", "-"): value for name, value in headers.items()},
            },
        )

    @classmethod
    def html(cls, page: str = "<html>hello</html>", status: int = 200) -> Answer:
        return cls(
            status=status, body=page.encode(), headers={"Content-Type": "text/html"}
        )

    @classmethod
    def connection_reset(cls) -> Answer:
        return cls(reset=True)


Script = Callable[[Call], Answer]


class ChatServer:
    """Listens on 127.0.0.1 while the `with` block runs."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.calls: list[Call] = []
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.chat = self
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.02},
            daemon=True,
        )

    @property
    def url(self) -> str:
        """The base URL, with the /v1 that endpoints have."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        name_host(self.url)
        return self

    def __exit__(self, *_: object) -> None:
        forget_host(self.url)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> Answer:
        """Answer a request; the names of headers are in lower case."""
        with self._lock:
            call = Call(len(self.calls), path, headers, json.loads(body or b"{}"))
            self.calls.append(call)
        return self.script(call)


def closed_url() -> str:
    """A base URL on loopback where nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/v1"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256
    chat: ChatServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer(body)

    def _answer(self, body: bytes) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.chat.take(self.command, self.path, headers, body)
        time.sleep(answer.delay)
        if answer.reset:
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.connection.close()
            self.close_connection = True
            return
        try:
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)
        except OSError:
            self.close_connection = True

    def log_message(self, *args: object) -> None:
        pass
