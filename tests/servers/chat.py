"""A chat-completions server on loopback, scripted by a function.

    with ChatServer(lambda call: Answer.json({"query": "..."})) as server:
        config = GenerateConfig(engine="openai", base_url=server.url, model="m")

The script gets each `Call` and returns an `Answer`. `server.calls` holds what was asked.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from tests.servers.wire import Call, Wire, WireServer


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
        message = {"role": "assistant", "content": content, **message}
        choice = {"index": 0, "finish_reason": finish_reason, "message": message}
        completion = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": "served-model",
            "choices": [choice],
            "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
        }
        return cls(
            body=json.dumps(completion).encode(),
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
            headers={name.replace("_", "-"): text for name, text in headers.items()},
        )

    @classmethod
    def html(cls, page: str = "<html>hello</html>", status: int = 200) -> Answer:
        return cls(
            status=status, body=page.encode(), headers={"Content-Type": "text/html"}
        )

    @classmethod
    def connection_reset(cls) -> Answer:
        return cls(reset=True)


class ChatServer(WireServer[Answer]):
    """A server whose script may wait: each call has a thread of its own."""

    def __init__(self, script: Callable[[Call], Answer]) -> None:
        super().__init__(script)
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(2000)

    def take(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> Answer:
        """Answer a request; the names of headers are in lower case."""
        with self._lock:
            call = self.note(path, headers, body)
        return self.script(call)

    async def respond(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> Wire:
        run = asyncio.get_running_loop().run_in_executor
        answer = await run(self._threads, self.take, method, path, headers, body)
        if answer.reset:
            return Wire((), end="reset")
        return Wire.http(answer.body, answer.status, answer.headers, pause=answer.delay)


def closed_url() -> str:
    """A base URL on loopback where nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/v1"
