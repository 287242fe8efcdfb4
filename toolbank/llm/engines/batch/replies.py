"""Reading what lies in the folder: requests by their names, replies under any name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolbank.chat.chat import ChatReply
from toolbank.llm.engines.batch.requests import read_name
from toolbank.llm.engines.batch.seen import Seen, read_seen
from toolbank.llm.engines.openai.completion import CompletionError, read_completion
from toolbank.system.errors import InputError
from toolbank.system.text import replace_surrogates

# A longer line is a reply that nobody can use; it is not held in memory.
_MOST_LINE = 4 * 2**20
_EXCERPT = 100_000
_SHOWN = 300
# Lines that were written here, and the keys in those too long to be parsed.
_WRITTEN = re.compile(rb'\{"custom_id": "([0-9a-f]+)", "method": "POST", ')
_KEY = re.compile(rb'"custom_id"\s*:\s*"([^"\\]{1,100})"')
_BOM = b"\xef\xbb\xbf"
# What no further try of the same request can mend.
_FINAL_STATUS = (400, 413, 422)
_ABOUT_LIMIT = "max_completion_tokens"
_NAMED = 3
# Stands for the body of a line that is too long to be parsed.
_TOO_LARGE: Any = object()


@dataclass(frozen=True)
class Place:
    """Where a reply's line begins."""

    path: Path
    start: int


@dataclass(frozen=True)
class Trouble:
    """Why a request was answered with an error; `final` where it would be again."""

    reason: str
    message: str
    final: bool = False


@dataclass
class Record:
    """What the files say. Keys are those of the journal.

    `asked` are the request files that hold a key, in the order of the rounds; `answered` the
    request files that replies or errors have come for; `reply_files` the bytes of each file with
    replies; `last_round` the highest number that a round was given; `notes` what was amiss in the files.
    """

    asked: dict[str, list[str]] = field(default_factory=dict)
    replies: dict[str, Place] = field(default_factory=dict)
    troubles: dict[str, Trouble] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)
    reply_files: dict[str, int] = field(default_factory=dict)
    last_round: int = 0
    wants_completion_limit: bool = False
    notes: tuple[str, ...] = ()


def read_folder(folder: Path, model: str) -> Record:
    """Read every `.jsonl` file of the folder.

    Of several replies to a request the first counts, in the order of the files' names. A file
    that ends in the middle of a line is still being copied: what it holds counts, and what it
    lacks may yet come.

    Raises:
        InputError: a file can't be read.
    """
    reader = _Reader(model)
    try:
        paths = [path for path in folder.glob("[!.]*.jsonl") if path.is_file()]
        for path in sorted(paths, key=_order):
            reader.read(path)
    except OSError as error:
        raise InputError(
            f"{error.filename or folder}: can't read ({error.strerror or error})."
        ) from error
    return reader.finish(read_seen(folder))


def read_reply(place: Place, model: str) -> ChatReply:
    """The reply that lies at a place.

    Raises:
        InputError: the file was changed since `read_folder`.
    """
    try:
        with place.path.open("rb") as file:
            file.seek(place.start)
            line = file.readline(_MOST_LINE + 1)
        if len(line) > _MOST_LINE:
            text = line[:_EXCERPT].decode("utf-8", "replace")
            return ChatReply(text, model, finish="too-large")
        body = json.loads(line.removeprefix(_BOM))["response"]["body"]
        return read_completion(body, model=model)
    except OSError as error:
        raise InputError(
            f"{place.path}: can't read ({error.strerror or error})."
        ) from error
    except (ValueError, LookupError, TypeError, RecursionError, CompletionError):
        raise InputError(
            f"{place.path}: changed while it was used. Run the same command again."
        ) from None


@dataclass(frozen=True)
class _Line:
    """A line without its end; `content` is the beginning only where it `is_long`."""

    number: int
    start: int
    content: bytes
    is_long: bool
    is_cut: bool


@dataclass
class _Reader:
    """Reads files one after another and counts what is amiss."""

    model: str
    record: Record = field(default_factory=Record)
    keys: dict[str, list[str]] = field(default_factory=dict)
    same: int = 0
    different: int = 0
    broken: list[str] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    misplaced: list[str] = field(default_factory=list)

    def read(self, path: Path) -> None:
        name = read_name(path.name)
        if name is not None:
            self.record.last_round = max(self.record.last_round, name[0])
        keys: list[str] = []
        for line in _lines(path):
            if (written := _WRITTEN.match(line.content)) and name is not None:
                self._ask(path.name, written[1].decode())
            elif line.content.strip():
                self._read_line(path, line, keys)
        if path.stat().st_size == 0:
            self.empty.append(path.name)
        if keys:
            self.keys[path.name] = keys
            self.record.reply_files[path.name] = path.stat().st_size

    def finish(self, seen: Seen) -> Record:
        self.record.last_round = max([self.record.last_round, *map(int, seen)])
        foreign = 0
        for name, keys in self.keys.items():
            for key in keys:
                files = self.record.asked.get(key)
                if files is None:
                    foreign += 1
                elif name not in self.cut:
                    self.record.answered |= self._answered_by(name, files, seen)
        self.record.notes = tuple(self._notes(foreign))
        return self.record

    def _answered_by(self, name: str, files: list[str], seen: Seen) -> set[str]:
        """Of the request files that hold a key, the one that this reply file is of."""
        for file in files:
            if name.startswith(file.removesuffix(".jsonl")):
                return {file}
        size = self.record.reply_files[name]
        new = [file for file in files if _seen_before(file, seen).get(name) != size]
        return set(new[-1:])

    def _read_line(self, path: Path, line: _Line, keys: list[str]) -> None:
        row = None if line.is_cut and line.is_long else _parse(line)
        if row is None:
            if line.is_cut:
                self.cut.append(path.name)
            else:
                self.broken.append(f"{path.name} line {line.number}")
        elif "response" not in row and "error" not in row:
            if read_name(path.name):
                self._ask(path.name, row["custom_id"])
            elif path.name not in self.misplaced:
                self.misplaced.append(path.name)
        else:
            self._take(row, Place(path, line.start))
            keys.append(row["custom_id"])

    def _ask(self, name: str, key: str) -> None:
        files = self.record.asked.setdefault(key, [])
        if name not in files:
            files.append(name)

    def _take(self, row: dict[str, Any], place: Place) -> None:
        key = row["custom_id"]
        read = _read_row(row, self.model)
        if isinstance(read, Trouble):
            self.record.troubles[key] = read
            self.record.wants_completion_limit |= _ABOUT_LIMIT in read.message
        elif key not in self.record.replies:
            self.record.replies[key] = place
        elif read_reply(self.record.replies[key], self.model) == read:
            self.same += 1
        else:
            self.different += 1

    def _notes(self, foreign: int) -> Iterator[str]:
        if doubled := self.same + self.different:
            yield (
                f"{doubled:,} replies came more than once, {self.different:,} of them with "
                "another text; the first of each counts"
            )
        if foreign:
            yield f"{foreign:,} replies are to requests that no file here holds"
        if self.broken:
            yield f"{len(self.broken):,} lines can't be read: {_name(self.broken)}"
        for name in self.cut:
            yield (
                f"{name} ends in the middle of a line, and more of it is waited for: copy it "
                "again, or delete that line if this is all there is"
            )
        if self.empty:
            yield (
                f"{_name(self.empty)}: empty, and its replies are waited for; where none came, "
                "delete the request file, and its requests are asked again"
            )
        if self.misplaced:
            yield (
                f"{_name(self.misplaced)}: requests, and not under a name that was given to "
                "them here; left out"
            )


def _order(path: Path) -> tuple[int, int, str]:
    name = read_name(path.name)
    return (name[0], name[2], path.name) if name else (0, 0, path.name)


def _lines(path: Path) -> Iterator[_Line]:
    number = start = 0
    with path.open("rb") as file:
        while content := file.readline(_MOST_LINE + 1):
            size, end = len(content), content
            while not end.endswith(b"\n") and len(end) > _MOST_LINE:
                end = file.readline(_MOST_LINE + 1)
                size += len(end)
            number += 1
            is_long = len(content) > _MOST_LINE
            if number == 1:
                content = content.removeprefix(_BOM)
            yield _Line(number, start, content, is_long, not end.endswith(b"\n"))
            start += size


def _parse(line: _Line) -> dict[str, Any] | None:
    """The row of a line, with a string at "custom_id"; None where it is no such thing."""
    if line.is_long:
        key = _KEY.search(line.content, 0, 2000)
        long = {"status_code": 200, "body": _TOO_LARGE}
        return (
            {"custom_id": key[1].decode("ascii", "replace"), "response": long}
            if key
            else None
        )
    try:
        row = json.loads(line.content)
    except (ValueError, RecursionError):
        return None
    is_row = isinstance(row, dict) and isinstance(row.get("custom_id"), str)
    return row if is_row else None


def _read_row(row: dict[str, Any], model: str) -> ChatReply | Trouble:
    response, error = row.get("response"), row.get("error")
    if not isinstance(response, dict):
        code = error.get("code") if isinstance(error, dict) else None
        return Trouble(_reason(code or "batch-error"), _say(error))
    status, body = response.get("status_code"), response.get("body")
    if status != 200 or error:
        told = body.get("error") if isinstance(body, dict) else None
        message = _say(told or error or body)
        is_final = status in _FINAL_STATUS and _ABOUT_LIMIT not in message
        return Trouble(_reason(f"http-{status}"), message, is_final)
    if body is _TOO_LARGE:
        return ChatReply("", model, finish="too-large")
    if not isinstance(body, dict):
        return Trouble("not-json-response", _say(body))
    try:
        return read_completion(body, model=model)
    except CompletionError as problem:
        return Trouble(problem.reason, _say(problem.said))


def _reason(code: Any) -> str:
    """A short name for counts, of what may be anything."""
    return re.sub(r"[^a-z0-9]+", "-", str(code).lower())[:40].strip("-")


def _say(error: Any) -> str:
    message = error.get("message") if isinstance(error, dict) else None
    text = " ".join(str(message or error or "").split())[:_SHOWN]
    return replace_surrogates(text)


def _seen_before(file: str, seen: Seen) -> dict[str, int]:
    name = read_name(file)
    return seen.get(name[0], {}) if name else {}


def _name(items: list[str]) -> str:
    more = len(items) - _NAMED
    return ", ".join(items[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
