"""Writing request files, split at the limits of the Batch API."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from toolbank.llm.engines.batch.options import MOST_BYTES
from toolbank.llm.engines.batch.writing import RequestFile
from toolbank.system.errors import ToolbankError
from toolbank.system.files import unwritable

URL = "/v1/chat/completions"

_NAME = re.compile(r"round-(\d+)-([a-z]+)-(\d+)\.jsonl")
_PART = ".part"


def read_name(name: str) -> tuple[int, str, int] | None:
    """Round, stage and number of a request file; None where a name is no such file's."""
    match = _NAME.fullmatch(name)
    return (int(match[1]), match[2], int(match[3])) if match else None


def make_line(key: str, body: Mapping[str, Any]) -> bytes:
    """One request as a file has it."""
    request = {"custom_id": key, "method": "POST", "url": URL, "body": body}
    # All ASCII, so that no reader can see a line's end in a line.
    return json.dumps(request).encode() + b"\n"


def remove_unfinished(folder: Path) -> None:
    """Remove what a round left that was ended before its files had names."""
    for path in folder.glob(f".round-*{_PART}"):
        path.unlink(missing_ok=True)


class RequestWriter:
    """Writes the requests of one round as they come; none has its name before `finish`.

    `round-001-write-002.jsonl` is the second file of the first round's write requests.
    """

    def __init__(self, folder: Path, number: int, max_requests: int) -> None:
        self._folder = folder
        self._number = number
        self._max_requests = max_requests
        self._open: dict[str, tuple[RequestFile, IO[bytes]]] = {}
        self._full: list[RequestFile] = []

    def add(self, stage: str, key: str, body: dict[str, Any]) -> None:
        """Write one request.

        Raises:
            ToolbankError: the folder can't be written to, or the disk is full.
        """
        line = make_line(key, body)
        try:
            file, part = self._part(stage, len(line))
            part.write(line)
        except OSError as error:
            raise ToolbankError(unwritable(self._folder, error)) from error
        file.requests += 1
        file.size += len(line)
        file.characters += sum(len(item["content"]) for item in body["messages"])

    def finish(self) -> list[RequestFile]:
        """Give the files their names once all of them are on disk.

        Raises:
            ToolbankError: the folder can't be written to, or the disk is full.
        """
        try:
            for stage in list(self._open):
                self._close(stage)
            for file in self._full:
                _part_path(file.path).replace(file.path)
        except OSError as error:
            raise ToolbankError(unwritable(self._folder, error)) from error
        return sorted(self._full, key=lambda file: file.path)

    def discard(self) -> None:
        """Let go of what was written and has no name yet."""
        for file, part in self._open.values():
            part.close()
            _part_path(file.path).unlink(missing_ok=True)
        for file in self._full:
            _part_path(file.path).unlink(missing_ok=True)

    def _part(self, stage: str, size: int) -> tuple[RequestFile, IO[bytes]]:
        """The open file of a stage that has room for a line of `size` bytes."""
        if stage in self._open:
            file, _ = self._open[stage]
            if file.requests < self._max_requests and file.size + size <= MOST_BYTES:
                return self._open[stage]
            self._close(stage)
        self._folder.mkdir(parents=True, exist_ok=True)
        begun = f"round-{self._number:03d}-{stage}-"
        count = 1 + sum(file.path.name.startswith(begun) for file in self._full)
        file = RequestFile(self._folder / f"{begun}{count:03d}.jsonl")
        self._open[stage] = file, _part_path(file.path).open("wb")
        return self._open[stage]

    def _close(self, stage: str) -> None:
        file, part = self._open.pop(stage)
        with part:
            part.flush()
            os.fsync(part.fileno())
        self._full.append(file)


def _part_path(path: Path) -> Path:
    return path.with_name(f".{path.name}{_PART}")
