"""The files and batches of a hosted Batch API on loopback, answered by a script.

    with BatchServer(lambda request: Answer.text("...")) as server:
        config = GenerateConfig(engine="batch", base_url=server.url, ...)

The script gets each line of a request file as a `Call` and returns the `Answer` that stands in the
output, or None where the request is left out. `before(number, method, path)` may answer any HTTP
request in place of the server, with a status or "reset"; `after` may break the connection once it was carried out.
"""

import json
import re
import time
from dataclasses import asdict, dataclass, field
from email.parser import BytesParser
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.servers.chat import Answer, Call, ChatServer


def reply_line(key, answer, **changes):
    """A line of an output file, or of an error file where the answer is an error."""
    body = json.loads(answer.body)
    response = {"status_code": answer.status, "request_id": "r", "body": body}
    row = {"id": "batch_req_1", "custom_id": key, "response": response, "error": None}
    return json.dumps({**row, **changes})


def unanswered_line(key, code="batch_expired"):
    """A line of an error file, of a request that was not answered at all."""
    error = {"code": code, "message": "This request could not be executed."}
    row = {"id": "batch_req_1", "custom_id": key, "response": None, "error": error}
    return json.dumps(row)


def answer_file(content, script):
    """The output to a request file, as a person would get it from a provider.

    Where it would be empty, the file of errors in its place.
    """
    pairs = answer_lines(content.splitlines(), script)
    lines = [line for answer, line in pairs if answer] or [line for _, line in pairs]
    return "".join(f"{line}\n" for line in lines)


def answer_lines(lines, script):
    """The answer to each line of a request file, and the line that an output has of it."""
    pairs = []
    for number, line in enumerate(lines):
        row = json.loads(line)
        key = row["custom_id"]
        answer = script(Call(number, row["url"], {}, row["body"]))
        answered = reply_line(key, answer) if answer else unanswered_line(key)
        pairs.append((answer, answered))
    return pairs


@dataclass
class HostedBatch:
    """`polls` before it is done; `end` is the state that it ends in."""

    id: str
    input_file_id: str
    metadata: dict[str, str] | None
    created_at: int
    polls: int = 1
    end: str = "completed"
    status: str = "validating"
    errors: list[dict[str, Any]] = field(default_factory=list)
    output_file_id: str | None = None
    error_file_id: str | None = None
    counts: dict[str, int] = field(
        default_factory=lambda: {"total": 0, "completed": 0, "failed": 0}
    )

    def to_json(self):
        errors = {"object": "list", "data": self.errors} if self.errors else None
        return {**asdict(self), "errors": errors, "request_counts": self.counts}


class BatchServer(ChatServer):
    """Files and batches in place of answers at once.

    `on_create` may change a batch as it is made (how it ends, how long it takes).
    """

    def __init__(
        self,
        script,
        *,
        on_create=lambda batch: None,
        before=lambda number, method, path: None,
        after=lambda number, method, path: None,
    ):
        super().__init__(script)
        self.on_create = on_create
        self.before = before
        self.after = after
        self.files: dict[str, tuple[str, bytes, str]] = {}
        self.batches: dict[str, HostedBatch] = {}
        self.requests: list[tuple[str, str]] = []
        self.keys: set[str] = set()

    @property
    def uploads(self):
        """The names of the request files that were uploaded."""
        return [name for name, _, purpose in self.files.values() if purpose == "batch"]

    def take(self, method, path, headers, body):
        with self._lock:
            number = len(self.requests)
            self.requests.append((method, path))
            self.keys.add(headers.get("authorization", ""))
            fault = self.before(number, method, path)
            if fault is None:
                status, content = self._answer(method, path, headers, body)
                fault = self.after(number, method, path)
        if fault == "reset":
            return Answer.connection_reset()
        if fault is not None:
            return Answer.error(fault, "a fault")
        return Answer(status, content)

    def _answer(self, method, path, headers, body):
        split = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(split.query).items()}
        route = split.path.removeprefix("/v1")
        if (method, route) == ("POST", "/files"):
            return self._upload(headers, body)
        if (method, route) == ("POST", "/batches"):
            return self._create(json.loads(body))
        if (method, route) == ("GET", "/batches"):
            rows = [batch.to_json() for batch in reversed(self.batches.values())]
            return _page(rows, query)
        if match := re.fullmatch(r"/files/([^/]+)/content", route):
            held = self.files.get(match[1])
            return (200, held[1]) if held else (404, _error("No such File object"))
        if match := re.fullmatch(r"/batches/([^/]+)", route):
            batch = self.batches.get(match[1])
            if batch is None:
                return 404, _error("No batch found")
            self._go_on(batch)
            return 200, json.dumps(batch.to_json()).encode()
        return 404, _error("no such path")

    def _upload(self, headers, body):
        head = f"Content-Type: {headers['content-type']}\r\n\r\n".encode()
        fields = {
            part.get_param("name", header="content-disposition"): part
            for part in BytesParser().parsebytes(head + body).get_payload()
        }
        purpose = fields["purpose"].get_payload(decode=True).decode()
        part = fields["file"]
        name = self._keep(part.get_filename(), part.get_payload(decode=True), purpose)
        return 200, json.dumps({"id": name, "object": "file"}).encode()

    def _keep(self, filename, content, purpose):
        name = f"file-{len(self.files)}"
        self.files[name] = filename, content, purpose
        return name

    def _create(self, asked):
        if asked["input_file_id"] not in self.files:
            return 400, _error("No such File object")
        assert asked["endpoint"] == "/v1/chat/completions"
        assert asked["completion_window"] == "24h"
        name, file = f"batch_{len(self.batches)}", asked["input_file_id"]
        batch = HostedBatch(name, file, asked.get("metadata"), int(time.time()))
        self.batches[batch.id] = batch
        self.on_create(batch)
        return 200, json.dumps(batch.to_json()).encode()

    def _go_on(self, batch):
        if batch.status == batch.end:
            return
        lines = self.files[batch.input_file_id][1].decode().splitlines()
        batch.counts["total"] = len(lines)
        batch.polls -= 1
        if batch.polls > 0:
            batch.status = "in_progress"
            return
        batch.status = batch.end
        if batch.end == "failed":
            return
        output, errors = [], []
        for answer, line in answer_lines(lines, self.script):
            (output if answer and answer.status == 200 else errors).append(line)
        batch.counts.update(completed=len(output), failed=len(errors))
        if output:
            batch.output_file_id = self._keep_lines(output)
        if errors:
            batch.error_file_id = self._keep_lines(errors)

    def _keep_lines(self, lines):
        content = "".join(f"{line}\n" for line in lines).encode()
        return self._keep("out.jsonl", content, "batch_output")


def _page(rows, query):
    ids = [row["id"] for row in rows]
    start = ids.index(query["after"]) + 1 if "after" in query else 0
    end = start + int(query.get("limit", 20))
    page = {"object": "list", "data": rows[start:end], "has_more": end < len(rows)}
    return 200, json.dumps(page).encode()


def _error(message):
    return json.dumps({"error": {"message": message, "type": "error"}}).encode()
