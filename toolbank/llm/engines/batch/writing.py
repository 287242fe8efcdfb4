"""Writing files of requests, split at the limits of the Batch API."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolbank.chat.chat import ChatRequest
from toolbank.llm.engines.batch.options import MOST_BYTES
from toolbank.llm.tokens import estimate_prompt
from toolbank.system.files import atomic_path

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
