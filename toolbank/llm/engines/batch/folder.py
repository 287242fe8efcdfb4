"""The folder of batch files: requests that were sent and replies that came back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

from toolbank.config.base import Config
from toolbank.config.explain import first_problem
from toolbank.llm.chat import ChatReply, ChatRequest, EngineError
from toolbank.llm.engines.openai.completion import (
    CompletionError,
    Format,
    read_completion,
)
from toolbank.system.errors import InputError
from toolbank.system.files import atomic_path, reading
from toolbank.system.numbers import count

if TYPE_CHECKING:
    from toolbank.llm.config import EngineConfig


# A longer line holds a reply that nobody can use.
_MOST_BYTES = 4 * 2**20
_EXCERPT = 100_000
# Of an error's message: more than is shown, so that a key in it can be hidden whole.
_MESSAGE = 1000
# Another try of the same request gives the same.
_FINAL_STATUS = (400, 413, 422)
# Except for a model that wants the token limit under this name.
LIMIT = "max_completion_tokens"


_REQUESTS = re.compile(r"round-(\d+)-[a-z]+-\d+\.jsonl")
_ROUND = re.compile(r"round-(\d+)\b")
_CUSTOM_ID = re.compile(rb'\{"custom_id": "([0-9a-f]+(?:-\d+)?)", "method": "POST", ')


def read_line(
    line: bytes, model: str
) -> tuple[str, ChatReply | EngineError | None] | None:
    """Read the `custom_id` and the reply of a line; None for anything else.

    A line of requests has no reply. `model` is the requested one, for replies that name none. An
    error is retryable unless another try can't help. No content raises.
    """
    # Parsing each request as JSON would take most of the time.
    if match := _CUSTOM_ID.match(line):
        return match[1].decode(), None
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict) or not isinstance(row.get("custom_id"), str):
        return None
    response, error = row.get("response"), row.get("error")
    parts = (response, _field(response, "body"), row.get("body"), row)
    completion = next((one for one in parts if _field(one, "choices")), None)
    if completion is None and "body" in row and not row.keys() & {"response", "error"}:
        return row["custom_id"], None
    reply = _read_answer(completion, response, error, model)
    if isinstance(reply, ChatReply) and len(line) > _MOST_BYTES:
        reply = replace(reply, text=reply.text[:_EXCERPT], finish="too-large")
    return row["custom_id"], reply


def _field(value: Any, name: str) -> Any:
    """The field of a JSON object; None if it is another value, or lacks it."""
    return value.get(name) if isinstance(value, dict) else None


def _read_answer(
    completion: Any, response: Any, error: Any, model: str
) -> ChatReply | EngineError:
    """Read a completion, which some providers give without the HTTP response around it."""
    status, body = _field(response, "status_code"), _field(response, "body")
    if status not in (None, 200, "200") or (error and completion is None):
        in_body = _field(body, "error") or _field(response, "error")
        code = f"http-{status}" if status else _field(error, "code") or "batch-error"
        return _make_refusal(code, in_body or error or body, status)
    answer = completion or body or response
    if isinstance(answer, str):
        answer = answer.encode("utf-8", "replace")
    try:
        return read_completion(answer, model=model)
    except CompletionError as problem:
        refusal = _make_refusal(problem.reason, problem.said)
        refusal.prompt_tokens = problem.prompt_tokens
        refusal.completion_tokens = problem.completion_tokens
        return refusal


def _make_refusal(code: Any, error: Any, status: Any = None) -> EngineError:
    # Any value gives a short name that can be counted.
    reason = re.sub(r"[^a-z0-9]+", "-", str(code).lower())[:40].strip("-")
    message = error.get("message") if isinstance(error, dict) else None
    text = " ".join(str(message or error or "").split())[:_MESSAGE]
    is_final = status in _FINAL_STATUS and LIMIT not in text
    return EngineError(text, reason=reason, retryable=not is_final)


_NO_REPLY = EngineError("", reason="no-reply", retryable=True)


@dataclass
class SentRequest:
    """A request in a request file, and why it has no reply."""

    file: str
    custom_id: str
    refusal: EngineError = _NO_REPLY


class Folder:
    """The request files of a folder, and the files of replies under any other name.

    `sent` has the requests of each journal key, in the order of their rounds; `last_round` is
    the number of the last round. Taking all of `read` fills in the refusals of `sent`, `answered`
    (the request files that have replies or errors), `wants_completion_limit` (the model refused
    the usual name of the token limit) and `notes` (what can't be used).

    Raises:
        InputError: a file can't be read.
    """

    def __init__(self, path: Path, model: str) -> None:
        self.sent: dict[str, list[SentRequest]] = {}
        self.answered: set[str] = set()
        self.wants_completion_limit = False
        self.notes: list[str] = []
        self._model = model
        files = path.glob("[!.]*.jsonl")
        self._files = sorted(
            (file for file in files if file.is_file()),
            key=lambda file: (read_round(file.name), file.name),
        )
        rounds = [read_round(file.name) for file in self._files]
        self.last_round = max(rounds, default=0)
        for file in self._files:
            if _REQUESTS.fullmatch(file.name):
                self._read_requests(file)

    def read(self) -> Iterator[tuple[str, ChatReply]]:
        """Read all replies, each with its key; a key may come more than once.

        Raises:
            InputError: a file can't be read.
        """
        for file in self._files:
            yield from self._read_replies(file)

    def _read_requests(self, file: Path) -> None:
        for _, content in _lines(file):
            line = read_line(content, "")
            if line is not None and line[1] is None:
                request = SentRequest(file.name, line[0])
                self.sent.setdefault(_key(line[0]), []).append(request)

    def _read_replies(self, file: Path) -> Iterator[tuple[str, ChatReply]]:
        answered: set[str] = set()
        unusable: list[int] = []
        is_whole = True
        for number, content in _lines(file):
            line = read_line(content, self._model)
            is_whole = line is not None or content.endswith(b"\n")
            custom_id, reply = line or ("", None)
            if _key(custom_id) not in self.sent:
                unusable.append(number)
            if reply is None:
                continue
            request = self._find(custom_id, read_round(file.name))
            if request is not None:
                answered.add(request.file)
            if isinstance(reply, ChatReply):
                yield _key(custom_id), reply
            elif request is not None:
                request.refusal = reply
                self.wants_completion_limit |= LIMIT in str(reply)
        if not is_whole:
            self.notes.append(
                f"{file.name} ends in the middle of a line, so toolbank waits for the rest. "
                "Copy the file again; if it is complete, delete that line."
            )
            return
        self.answered |= answered
        if unusable:
            self.notes.append(
                f"{file.name}, line {unusable[0]}: no reply to a request in this folder "
                f"({count(len(unusable), 'such line')} in the file)."
            )

    def _find(self, custom_id: str, number: int) -> SentRequest | None:
        """Find the request of a reply in a file of a round; 0: the file does not name one."""
        # Before requests had the number of their try in `custom_id`, files of replies were
        # renamed after their round.
        found = [
            request
            for request in self.sent.get(_key(custom_id), ())
            if request.custom_id == custom_id
            and (not number or read_round(request.file) <= number)
        ]
        return found[-1] if found else None


def read_round(name: str) -> int:
    """Read the number of the round from a file name; 0 if there is none."""
    match = _ROUND.match(name)
    return int(match[1]) if match else 0


def _key(custom_id: str) -> str:
    """The request's key in the journal."""
    return custom_id.partition("-")[0]


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    with reading(file), file.open("rb") as lines:
        for number, content in enumerate(lines, start=1):
            if content.strip():
                yield number, content


# The Batch API's limits of one file.
MOST_REQUESTS = 50_000
MOST_BYTES = 200 * 1000 * 1000


class BatchOptions(Config):
    """The `options` of the batch engine in a recipe."""

    submit: bool = Field(default=False, description="use the endpoint's Batch API")
    wait: bool = Field(
        default=True,
        description="with submit: wait for the replies; if false, a later run fetches them",
    )
    max_requests: int = Field(
        default=MOST_REQUESTS,
        ge=1,
        le=MOST_REQUESTS,
        description="per file; fewer if the account limits queued tokens",
    )
    answer_as: Format = Field(
        default="json_schema",
        description="form of structured output that the endpoint supports",
    )


def read_options(config: EngineConfig) -> BatchOptions:
    """Read the options of a configuration.

    Raises:
        InputError: a value is invalid; the message names the key.
    """
    try:
        return BatchOptions.model_validate(config.options)
    except ValidationError as error:
        raise InputError(f"{config.section}.options.{first_problem(error)}.") from error


URL = "/v1/chat/completions"


def write_requests(
    folder: Path,
    number: int,
    requests: Iterable[tuple[str, ChatRequest, Mapping[str, Any]]],
    most: int,
) -> dict[Path, int]:
    """Write the requests of a round (custom_id, request, body), up to `most` per file.

    Returns the number of requests in each file. `round-001-write-002.jsonl` is the second file of
    the first round's write requests. Each file is written whole or not at all; after a kill the
    next round holds the others.

    Raises:
        ToolbankError: the folder can't be written to, or the disk is full.
    """
    for left in folder.glob(".round-*"):
        left.unlink(missing_ok=True)
    by_step: dict[str, list[bytes]] = {}
    for custom_id, request, body in requests:
        row = {"custom_id": custom_id, "method": "POST", "url": URL, "body": body}
        # All ASCII, so that no reader can see a line's end in a line.
        by_step.setdefault(request.step, []).append(json.dumps(row).encode() + b"\n")
    written: dict[Path, int] = {}
    for step, lines in sorted(by_step.items()):
        for part, chunk in enumerate(_split(lines, most), start=1):
            path = folder / f"round-{number:03d}-{step}-{part:03d}.jsonl"
            with atomic_path(path) as temporary, temporary.open("wb") as file:
                file.writelines(chunk)
            written[path] = len(chunk)
    return written


def _split(lines: Iterable[bytes], most: int) -> Iterator[list[bytes]]:
    """Split lines into files that the Batch API accepts."""
    chunk: list[bytes] = []
    size = 0
    for line in lines:
        if chunk and (len(chunk) == most or size + len(line) > MOST_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(line)
        size += len(line)
    if chunk:
        yield chunk
