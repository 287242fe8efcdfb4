"""Answers on disk: whole or not there, headers as JSON, nothing pickled."""

import base64
import hashlib
import json
import os
import time
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolbank.sources.web.answer import Answer
from toolbank.system.errors import ToolbankError
from toolbank.system.files import unwritable

_KEPT_HEADERS = ("Content-Type", "ETag", "Last-Modified", "Location")
# What is as good as none, and costs the least time.
_LEVEL = 1


@dataclass(frozen=True)
class Kept:
    """An answer of the site, and when it last said so, in seconds since 1970."""

    answer: Answer
    checked: float


class PageCache:
    """One file an answer: a line of JSON, then the body, packed by zlib.

    The time of the file is that of the last check. A file that is damaged counts as missing, and
    so does one whose body is larger than `max_bytes`.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes

    def read(self, url: str) -> Kept | None:
        """The answer kept for a URL, or None."""
        path = self._path(url)
        try:
            with path.open("rb") as file:
                checked = os.fstat(file.fileno()).st_mtime
                head, _, packed = file.read().partition(b"\n")
            kept: dict[str, Any] = json.loads(head)
            if kept["url"] != url or kept["length"] != len(packed):
                return None
            headers = {
                name.lower(): base64.b64decode(value).decode("utf-8", "surrogateescape")
                for name, value in kept["headers"]
            }
            status = int(kept["status"])
            unpacker = zlib.decompressobj()
            body = unpacker.decompress(packed, self._max_bytes)
            if not unpacker.eof:
                return None
        except (OSError, ValueError, KeyError, TypeError, zlib.error):
            return None
        return Kept(Answer(url, status, headers, body, "cached"), checked)

    def has(self, url: str) -> bool:
        """Whether there is a file for a URL, be it damaged."""
        return self._path(url).exists()

    def write(self, answer: Answer) -> None:
        """Keep an answer.

        Raises:
            ToolbankError: the folder can't be written to, or the disk is full.
        """
        packed = zlib.compress(answer.body, _LEVEL)
        head = {
            "url": answer.url,
            "status": answer.status,
            "length": len(packed),
            "headers": [
                (name, base64.b64encode(_bytes(answer.headers[name.lower()])).decode())
                for name in _KEPT_HEADERS
                if name.lower() in answer.headers
            ],
        }
        path = self._path(answer.url)
        try:
            _replace(path, json.dumps(head).encode() + b"\n" + packed)
        except OSError as error:
            raise ToolbankError(unwritable(path, error)) from error

    def renew(self, url: str) -> None:
        """Note that the site has just said that an answer still holds."""
        now = time.time()
        # A file that is gone meanwhile is asked for again the next time.
        try:
            os.utime(self._path(url), (now, now))
        except OSError:
            return

    def _path(self, url: str) -> Path:
        key = hashlib.sha256(url.encode()).hexdigest()
        return self._folder / key[:2] / key


def _bytes(header: str) -> bytes:
    return header.encode("utf-8", "surrogateescape")


def _replace(path: Path, data: bytes) -> None:
    """Put a whole file in place, dated now.

    It is not forced to the disk, which would cost more than all the rest: one that a power cut
    leaves in pieces does not unpack, and counts as missing.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    now = time.time()
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        temporary.write_bytes(data)
        os.utime(temporary, (now, now))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
