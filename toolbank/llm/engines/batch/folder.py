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
from toolbank.llm.accounts import estimate_prompt
from toolbank.llm.chat import ChatReply, ChatRequest
from toolbank.llm.engines.openai.completion import (
    CompletionError,
    Format,
    read_completion,
)
from toolbank.system.errors import InputError
from toolbank.system.files import atomic_path, reading
from toolbank.system.numbers import count
from toolbank.system.text import replace_surrogates

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


@dataclass(frozen=True)
class BatchRefusal:
    """Why a request has no reply; `is_final` if another try can't help.

    The tokens are those that were charged all the same.
    """

    reason: str
    message: str = ""
    is_final: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True)
class BatchLine:
    """A line of a batch file: the request's `custom_id` and its reply; None in a request."""

    custom_id: str
    reply: ChatReply | BatchRefusal | None

    @property
    def key(self) -> str:
        """The request's key in the journal."""
        return self.custom_id.partition("-")[0]


def read_line(line: bytes, model: str) -> BatchLine | None:
    """Read a line of requests, output or errors; None for anything else.

    `model` is the requested one, for replies that name none. No content raises.
    """
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict) or not isinstance(row.get("custom_id"), str):
        return None
    if "response" not in row and "error" not in row:
        return BatchLine(row["custom_id"], None)
    reply = _read_answer(row.get("response"), row.get("error"), model)
    if isinstance(reply, ChatReply) and len(line) > _MOST_BYTES:
        reply = replace(reply, text=reply.text[:_EXCERPT], finish="too-large")
    return BatchLine(row["custom_id"], reply)


def _read_answer(response: Any, error: Any, model: str) -> ChatReply | BatchRefusal:
    if not isinstance(response, dict):
        code = error.get("code") if isinstance(error, dict) else None
        return BatchRefusal(_reason(code or "batch-error"), _message(error))
    status, body = response.get("status_code"), response.get("body")
    if status != 200 or error:
        in_body = body.get("error") if isinstance(body, dict) else None
        message = _message(in_body or error or body)
        is_final = status in _FINAL_STATUS and LIMIT not in message
        return BatchRefusal(_reason(f"http-{status}"), message, is_final)
    if not isinstance(body, dict):
        return BatchRefusal("not-json-response", _message(body))
    try:
        return read_completion(body, model=model)
    except CompletionError as problem:
        return BatchRefusal(
            problem.reason,
            _message(problem.said),
            prompt_tokens=problem.prompt_tokens,
            completion_tokens=problem.completion_tokens,
        )


def _reason(code: Any) -> str:
    """Turn any value into a short name that can be counted."""
    return re.sub(r"[^a-z0-9]+", "-", str(code).lower())[:40].strip("-")


def _message(error: Any) -> str:
    message = error.get("message") if isinstance(error, dict) else None
    text = " ".join(str(message or error or "").split())[:_MESSAGE]
    return replace_surrogates(text)


_REQUESTS = re.compile(r"round-(\d+)-[a-z]+-\d+\.jsonl")
_ROUND = re.compile(r"round-(\d+)\b")
_CUSTOM_ID = re.compile(rb'\{"custom_id": "([0-9a-f]+(?:-\d+)?)", "method": "POST", ')


@dataclass
class SentRequest:
    """A request in a request file, and why it has no reply."""

    file: str
    custom_id: str
    refusal: BatchRefusal = BatchRefusal("no-reply")


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
        files = (file for file in path.glob("[!.]*.jsonl") if file.is_file())
        self._files = sorted(files, key=lambda file: (read_round(file.name), file.name))
        self.last_round = max(
            (read_round(file.name) for file in self._files), default=0
        )
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
            # Parsing each request as JSON would take most of the time.
            if match := _CUSTOM_ID.match(content):
                line = BatchLine(match[1].decode(), None)
            else:
                read = read_line(content, "")
                if read is None or read.reply is not None:
                    continue
                line = read
            request = SentRequest(file.name, line.custom_id)
            self.sent.setdefault(line.key, []).append(request)

    def _read_replies(self, file: Path) -> Iterator[tuple[str, ChatReply]]:
        answered: set[str] = set()
        unusable: list[int] = []
        is_whole = True
        for number, content in _lines(file):
            if _CUSTOM_ID.match(content):
                continue
            line = read_line(content, self._model)
            is_whole = line is not None or content.endswith(b"\n")
            if line is None or line.key not in self.sent:
                unusable.append(number)
            if line is None or line.reply is None:
                continue
            request = self._find(line, read_round(file.name))
            if request is not None:
                answered.add(request.file)
            if isinstance(line.reply, ChatReply):
                yield line.key, line.reply
            elif request is not None:
                request.refusal = line.reply
                self.wants_completion_limit |= LIMIT in line.reply.message
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

    def _find(self, line: BatchLine, number: int) -> SentRequest | None:
        """Find the request of a reply in a file of a round; 0: the file does not name one."""
        # Before requests had the number of their try in `custom_id`, files of replies were
        # renamed after their round.
        found = [
            request
            for request in self.sent.get(line.key, ())
            if request.custom_id == line.custom_id
            and (not number or read_round(request.file) <= number)
        ]
        return found[-1] if found else None


def read_round(name: str) -> int:
    """Read the number of the round from a file name; 0 if there is none."""
    match = _ROUND.match(name)
    return int(match[1]) if match else 0


def make_custom_id(key: str, tries: int) -> str:
    """Name the request with this journal key in a request file, after so many earlier tries."""
    return f"{key}-{tries + 1}" if tries else key


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


@dataclass(frozen=True)
class RequestFile:
    """A request file that was written, with the estimated tokens of its prompts."""

    path: Path
    requests: int
    tokens: float


def write_requests(
    folder: Path,
    number: int,
    requests: Iterable[tuple[str, ChatRequest, Mapping[str, Any]]],
    most: int,
) -> list[RequestFile]:
    """Write the requests of a round (custom_id, request, body), up to `most` per file.

    `round-001-write-002.jsonl` is the second file of the first round's write requests. Each file
    is written whole or not at all; after a kill the next round holds the others.

    Raises:
        ToolbankError: the folder can't be written to, or the disk is full.
    """
    for left in folder.glob(".round-*"):
        left.unlink(missing_ok=True)
    by_step: dict[str, list[tuple[bytes, float]]] = {}
    for custom_id, request, body in requests:
        row = {"custom_id": custom_id, "method": "POST", "url": URL, "body": body}
        # All ASCII, so that no reader can see a line's end in a line.
        line = json.dumps(row).encode() + b"\n"
        by_step.setdefault(request.step, []).append((line, estimate_prompt(request)))
    written: list[RequestFile] = []
    for step, lines in sorted(by_step.items()):
        for part, chunk in enumerate(_split(lines, most), start=1):
            path = folder / f"round-{number:03d}-{step}-{part:03d}.jsonl"
            with atomic_path(path) as temporary, temporary.open("wb") as file:
                file.writelines(line for line, _ in chunk)
            tokens = sum(tokens for _, tokens in chunk)
            written.append(RequestFile(path, len(chunk), tokens))
    return written


def _split(
    lines: Iterable[tuple[bytes, float]], most: int
) -> Iterator[list[tuple[bytes, float]]]:
    """Split lines into files that the Batch API accepts."""
    chunk: list[tuple[bytes, float]] = []
    size = 0
    for line in lines:
        if chunk and (len(chunk) == most or size + len(line[0]) > MOST_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(line)
        size += len(line[0])
    if chunk:
        yield chunk
