"""A chat-completions server on loopback, scripted by a function.

    with ChatServer(lambda call: Answer.json({"query": "..."})) as server:
        config = GenerateConfig(engine="openai", base_url=server.url, model="m")

The script gets each `Call` and returns an `Answer`. `server.calls` holds what was asked.
"""

import asyncio
import json
import socket
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tests.servers.wire import Call, Wire, WireServer  # noqa: F401


@dataclass(frozen=True)
class Answer:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0
    reset: bool = False

    @classmethod
    def text(cls, content, *, finish_reason="stop", delay=0, **message):
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
        return cls(body=json.dumps(completion).encode(), delay=delay)

    @classmethod
    def json(cls, value, *, before="", after=""):
        """A completion that holds a JSON object, and prose around it if wanted."""
        return cls.text(before + json.dumps(value) + after)

    @classmethod
    def embeddings(cls, call, change=lambda rows: rows, **usage):
        """A vector for each text of a call: how often each hash of a word occurs.

        `change` alters the rows; `usage` is sent in place of the tokens, one for each word.
        """
        texts = call.body["input"]
        rows = [
            {"object": "embedding", "index": number, "embedding": count_words(text)}
            for number, text in enumerate(texts)
        ]
        tokens = sum(len(text.split()) for text in texts)
        usage = usage or {"prompt_tokens": tokens, "total_tokens": tokens}
        body = {"object": "list", "data": change(rows), "model": "m", "usage": usage}
        return cls(body=json.dumps(body).encode())

    @classmethod
    def error(cls, status, message="no", **headers):
        """An error as OpenAI's API words it; write headers as Retry_After="1"."""
        return cls(
            status=status,
            body=json.dumps({"error": {"message": message, "type": "error"}}).encode(),
            headers={name.replace("_", "-"): text for name, text in headers.items()},
        )

    @classmethod
    def html(cls, page="<html>hello</html>", status=200):
        return cls(status, page.encode(), {"Content-Type": "text/html"})

    @classmethod
    def connection_reset(cls):
        return cls(reset=True)


def count_words(text, width=32):
    counts = [0.0] * width
    for word in text.split():
        counts[zlib.crc32(word.lower().strip(".,:").encode()) % width] += 1
    return counts


class ChatServer(WireServer):
    """A server whose script may wait: each call has a thread of its own."""

    def __init__(self, script):
        super().__init__(script)
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(2000)

    def take(self, method, path, headers, body):
        """Answer a request; the names of headers are in lower case."""
        with self._lock:
            call = self.note(path, headers, body)
        return self.script(call)

    async def respond(self, method, path, headers, body):
        run = asyncio.get_running_loop().run_in_executor
        answer = await run(self._threads, self.take, method, path, headers, body)
        if answer.reset:
            return Wire((), end="reset")
        return Wire.http(answer.body, answer.status, answer.headers, pause=answer.delay)


def closed_url():
    """A base URL on loopback where nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/v1"
