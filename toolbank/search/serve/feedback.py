"""Log searches and the chosen tools, as labelled queries for the next training."""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
import sys
from collections import OrderedDict
from contextlib import suppress
from datetime import UTC, datetime
from io import TextIOWrapper
from logging import Formatter, LogRecord
from logging.handlers import RotatingFileHandler
from pathlib import Path
from threading import Lock
from typing import Any

from toolbank.search.finder import Answer
from toolbank.system.errors import InputError
from toolbank.system.terminal import print_message

_MOST_BYTES, _OLDER = 50_000_000, 3
_REMEMBERED = 10_000


class FeedbackLog:
    """A JSONL file of searches, of the tools that were chosen from them, and of calls.

    The line of a choice has `query` and `tools`, as `toolbank evaluate RUN --on FILE` and datasets
    read it; those of a search and of a call have none, and so has that of a user who says that no
    tool fits. Queries are only written if `with_text`. The file has mode 600. At 50 MB it is moved
    to FILE.1, and so on up to FILE.3. Threads may share a log.
    """

    def __init__(self, path: Path, *, with_text: bool) -> None:
        """Open the file to append to it.

        Raises:
            InputError: it can't be written to.
        """
        self._with_text, self._lock = with_text, Lock()
        self._searches: OrderedDict[str, tuple[str, tuple[str, ...]]] = OrderedDict()
        self._choices: dict[str, set[str]] = {}
        try:
            self._file = _PrivateFile(path)
        except OSError as error:
            raise InputError(
                f"--log {path}: cannot be written ({error.strerror or error}). Give a regular file "
                "in an existing folder."
            ) from error

    def searched(self, finder: str, query: str, answer: Answer) -> str:
        """Log a search; gives its id for `chose`."""
        search = secrets.token_hex(8)
        found = tuple(hit.tool.name for hit in answer.hits)
        kept = query if self._with_text else ""
        with self._lock:
            self._searches[search] = (kept, found)
            if len(self._searches) > _REMEMBERED:
                gone, _ = self._searches.popitem(last=False)
                self._choices.pop(gone, None)
        scores = [round(hit.score, 4) for hit in answer.hits]
        self._write("search", search, finder, kept, (), found=found, scores=scores)
        return search

    def chose(self, finder: str, search: str, tool: str) -> bool:
        """Log that a tool was chosen, once per search; False if the search is unknown or lacks it.

        An empty name says that no tool fits the request.
        """
        with self._lock:
            if search not in self._searches:
                return False
            query, found = self._searches[search]
            if tool and tool not in found:
                return False
            chosen = self._choices.setdefault(search, set())
            if tool in chosen:
                return True
            chosen.add(tool)
            number = len(chosen)
        if not tool:
            self._write("none", f"{search}.{number}", finder, query, ())
            return True
        place = found.index(tool) + 1
        self._write("choice", f"{search}.{number}", finder, query, (tool,), rank=place)
        return True

    def called(self, client: str, tool: str, outcome: str, seconds: float) -> None:
        """Log who called a tool, when, and how it ended; without arguments and answer."""
        more = {"client": client, "called": tool, "outcome": outcome}
        number = secrets.token_hex(8)
        self._write("call", number, "", "", (), **more, seconds=round(seconds, 2))

    @property
    def lost(self) -> int:
        """The number of lines that could not be written."""
        return self._file.lost

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(
        self,
        event: str,
        number: str,
        finder: str,
        query: str,
        tools: tuple[str, ...],
        **more: Any,
    ) -> None:
        row = {
            "id": number,
            "event": event,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "finder": finder,
            "query": query,
            "tools": tools,
            **more,
        }
        line = json.dumps(row, ensure_ascii=False)
        self._file.handle(LogRecord("feedback", 20, "", 0, line, None, None))


class _PrivateFile(RotatingFileHandler):
    """A rotating file that only the user may read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "a", _MOST_BYTES, _OLDER, "utf-8")
        self.setFormatter(Formatter("%(message)s"))
        self.lost = 0

    def handleError(self, record: LogRecord) -> None:  # noqa: ARG002, N802
        """Report the first failure; searches go on."""
        self.lost += 1
        if self.lost == 1:
            with suppress(OSError, ValueError):
                print_message(
                    f"{self.baseFilename}: cannot write the log ({sys.exc_info()[1]}). "
                    "The server goes on; lines are lost until it can be written again."
                )

    def _open(self) -> TextIOWrapper:
        # A link would redirect the log, and a pipe would block the server.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(self.baseFilename, flags, 0o600)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "not a regular file")
        os.fchmod(descriptor, 0o600)
        return os.fdopen(descriptor, "a", encoding="utf-8", newline="\n")
