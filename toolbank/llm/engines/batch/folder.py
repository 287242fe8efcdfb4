"""The folder of batch files: requests that went out and replies that came back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from filecmp import cmp
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
from toolbank.system.files import atomic_path, reading, write_error
from toolbank.system.numbers import count
from toolbank.system.text import replace_surrogates

if TYPE_CHECKING:
    from toolbank.llm.config import EngineConfig


# A longer one is a reply that nobody can use.
_MOST_BYTES = 4 * 2**20
_EXCERPT = 100_000
# Of an error's message; more than is shown of it, so that a key in it can be hidden whole.
_MESSAGE = 1000
# What no further try of the same request can mend.
_FINAL_STATUS = (400, 413, 422)
# But for one that wants its limit of tokens under another name.
LIMIT = "max_completion_tokens"


@dataclass(frozen=True)
class BatchRefusal:
    """Why a request was not answered; `is_final` where it would not be again.

    The tokens are those that it was charged for all the same.
    """

    reason: str
    message: str = ""
    is_final: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True)
class BatchLine:
    """The request of this key, in the journal, and its reply; None where it is the request."""

    key: str
    reply: ChatReply | BatchRefusal | None


def read_line(line: bytes, model: str) -> BatchLine | None:
    """Read a line of requests, output or errors; None where it is no such thing.

    `model` is what was asked, where a reply names none. Nothing that a line can hold raises.
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
        told = body.get("error") if isinstance(body, dict) else None
        message = _message(told or error or body)
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
    """A short name for counts, of what may be anything."""
    return re.sub(r"[^a-z0-9]+", "-", str(code).lower())[:40].strip("-")


def _message(error: Any) -> str:
    message = error.get("message") if isinstance(error, dict) else None
    text = " ".join(str(message or error or "").split())[:_MESSAGE]
    return replace_surrogates(text)


_REQUESTS = re.compile(r"round-(\d+)-[a-z]+-\d+\.jsonl")
_ROUND = re.compile(r"round-(\d+)\b")
_KEY = re.compile(rb'\{"custom_id": "([0-9a-f]+)", "method": "POST", ')
_BOM = b"\xef\xbb\xbf"
_NAMED = 3


class Folder:
    """What the files of a folder say. Keys are those of the journal.

    A request file is known by its name, replies come under any. A file of replies gets the number
    of the last round before its name once it is read, and is of that round from then on.
    `asked` are the request files that hold a key, by their rounds; `rounds` the last one's number.
    What replies say is known once all of `read` has been taken: `answered` are the request files
    that replies or errors came for, `refusals` why a key has no reply, `notes` what is amiss.

    Raises:
        InputError: a file can't be read.
    """

    def __init__(self, path: Path, model: str) -> None:
        self.path = path
        self.asked: dict[str, list[str]] = {}
        self.answered: set[str] = set()
        self.refusals: dict[str, BatchRefusal] = {}
        self.notes: list[str] = []
        self._model = model
        self._replies: list[Path] = []
        self._new: list[Path] = []
        self._seen: set[str] = set()
        self._doubled = self._foreign = 0
        self._broken: list[str] = []
        files = sorted(path.glob("[!.]*.jsonl"))
        # By their rounds, and last those that have none yet.
        for file in sorted(files, key=lambda file: read_round(file.name) or 10**9):
            is_reply = file.is_file() and not self._read_requests(file)
            if is_reply and not any(_is_copy(file, other) for other in self._replies):
                self._replies.append(file)
        self.rounds = max((read_round(file.name) for file in files), default=0)

    @property
    def wants_completion_limit(self) -> bool:
        """Whether the model refused the usual name for the limit of an answer's tokens."""
        return any(LIMIT in refusal.message for refusal in self.refusals.values())

    def read(self) -> Iterator[tuple[str, ChatReply]]:
        """The keys and replies that came; of several to one request, the first.

        Raises:
            InputError: a file can't be read.
        """
        for file in self._replies:
            yield from self._read_replies(file)
        if self._doubled:
            self.notes.append(
                f"{count(self._doubled, 'reply', 'replies')} came more than once; the first of each "
                "counts"
            )
        if self._foreign:
            self.notes.append(
                f"{count(self._foreign, 'reply is to a request', 'replies are to requests')} that "
                "no file here holds"
            )
        if self._broken:
            more = len(self._broken) - _NAMED
            self.notes.append(
                f"{count(len(self._broken), 'line')} can't be read: "
                f"{', '.join(self._broken[:_NAMED])}{f' and {more:,} more' if more > 0 else ''}"
            )

    def name_read(self) -> None:
        """Give files of replies the round that they were read in, so that no later one has them.

        Raises:
            ToolbankError: the folder can't be written to.
        """
        for file in self._new:
            name = f"round-{self.rounds:03d}.{file.name}"
            while (self.path / name).exists():
                name = name.replace(".", ".again.", 1)
            try:
                file.rename(self.path / name)
            except OSError as error:
                raise write_error(file, error) from error
        self._new.clear()

    def _read_requests(self, file: Path) -> bool:
        """Take the keys of a file of requests; False where there is anything else in it."""
        if not _REQUESTS.fullmatch(file.name):
            return False
        is_all = True
        for _, content in _lines(file):
            if match := _KEY.match(content):
                key = match[1].decode()
            elif (line := read_line(content, "")) and line.reply is None:
                key = line.key
            else:
                is_all = False
                continue
            files = self.asked.setdefault(key, [])
            if file.name not in files:
                files.append(file.name)
        return is_all

    def _read_replies(self, file: Path) -> Iterator[tuple[str, ChatReply]]:
        number = read_round(file.name) or self.rounds
        answered: set[str] = set()
        is_whole = True
        for place, content in _lines(file):
            line = read_line(content, self._model)
            if line is None:
                is_whole = content.endswith(b"\n")
                if is_whole:
                    self._broken.append(f"{file.name} line {place}")
                continue
            if line.reply is None:
                self._note_misplaced(file)
                continue
            of = self.asked.get(line.key, [])
            self._foreign += not of
            answered.update([name for name in of if read_round(name) <= number][-1:])
            if isinstance(line.reply, BatchRefusal):
                self.refusals[line.key] = line.reply
            elif line.key in self._seen:
                self._doubled += 1
            else:
                self._seen.add(line.key)
                yield line.key, line.reply
        if not is_whole:
            self.notes.append(
                f"{file.name} ends in the middle of a line, and more of it is waited for: copy "
                "it again, or delete that line if this is all there is"
            )
            return
        self.answered |= answered
        if answered and not read_round(file.name):
            self._new.append(file)
        if not file.stat().st_size:
            self.notes.append(
                f"{file.name}: empty, and its replies are waited for; where none came, delete "
                "the request file, and its requests are asked again"
            )

    def _note_misplaced(self, file: Path) -> None:
        if _REQUESTS.fullmatch(file.name):
            return
        note = (
            f"{file.name}: requests, and not under a name that was given to them here; "
            "left out"
        )
        if note not in self.notes:
            self.notes.append(note)


def read_round(name: str) -> int:
    """The round that a file is of, by its name; 0 where it does not say."""
    match = _ROUND.match(name)
    return int(match[1]) if match else 0


def _is_copy(file: Path, other: Path) -> bool:
    """Whether a file that was read and has its round lies there under its own name once more."""
    return other.name.endswith(f".{file.name}") and cmp(file, other, shallow=False)


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that hold anything, and their numbers."""
    with reading(file), file.open("rb") as lines:
        for number, content in enumerate(lines, start=1):
            if number == 1:
                content = content.removeprefix(_BOM)
            if content.strip():
                yield number, content


# Of the Batch API, for one file.
MOST_REQUESTS = 50_000
MOST_BYTES = 200 * 1000 * 1000


class BatchOptions(Config):
    """How a recipe's `options` may tell the batch engine to go about it."""

    submit: bool = Field(
        default=False, description="upload, poll and fetch by the endpoint's Batch API"
    )
    max_requests: int = Field(
        default=MOST_REQUESTS,
        ge=1,
        le=MOST_REQUESTS,
        description="requests a file; fewer where the account's queue of tokens is short",
    )
    answer_as: Format = Field(
        default="json_schema",
        description="how structured output is asked for; an endpoint may know less",
    )


def read_options(config: EngineConfig) -> BatchOptions:
    """The options of a configuration.

    Raises:
        InputError: one of them has no such value; the message names the key.
    """
    try:
        return BatchOptions.model_validate(config.options)
    except ValidationError as error:
        raise InputError(f"{config.section}.options.{first_problem(error)}.") from error


URL = "/v1/chat/completions"


@dataclass(frozen=True)
class RequestFile:
    """A file of requests: how many, their bytes, and about how many tokens of prompts."""

    path: Path
    requests: int
    size: int
    tokens: float


def write_requests(
    folder: Path,
    number: int,
    requests: Iterable[tuple[str, ChatRequest, Mapping[str, Any]]],
    most: int,
) -> list[RequestFile]:
    """Write a round's requests (key, request, body), at most so many a file.

    `round-001-write-002.jsonl` is the second file of the first round's write requests. Each is
    whole or not there; a kill between two leaves the others to the next round.

    Raises:
        ToolbankError: the folder can't be written to, or the disk is full.
    """
    for left in folder.glob(".round-*"):
        left.unlink(missing_ok=True)
    by_step: dict[str, list[tuple[bytes, float]]] = {}
    for key, request, body in requests:
        row = {"custom_id": key, "method": "POST", "url": URL, "body": body}
        # All ASCII, so that no reader can see a line's end in a line.
        line = json.dumps(row).encode() + b"\n"
        by_step.setdefault(request.step, []).append((line, estimate_prompt(request)))
    written: list[RequestFile] = []
    for step, lines in sorted(by_step.items()):
        for part, chunk in enumerate(_split(lines, most), start=1):
            path = folder / f"round-{number:03d}-{step}-{part:03d}.jsonl"
            with atomic_path(path) as temporary, temporary.open("wb") as file:
                file.writelines(line for line, _ in chunk)
            written.append(
                RequestFile(
                    path,
                    len(chunk),
                    sum(len(line) for line, _ in chunk),
                    sum(tokens for _, tokens in chunk),
                )
            )
    return written


def _split(
    lines: Iterable[tuple[bytes, float]], most: int
) -> Iterator[list[tuple[bytes, float]]]:
    """As many lines at once as a file may have."""
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
