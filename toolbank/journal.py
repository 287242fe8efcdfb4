"""Replies on disk before they count.

A SQLite file in write-ahead mode with synchronous=FULL. One thread writes; it commits all that
waits at once, so that many calls share one fsync.
"""

from __future__ import annotations

import asyncio
import json
import queue
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from toolbank.errors import ToolbankError
from toolbank.llm.chat import ChatReply, ChatRequest

LAYOUT = 1

_SCHEMA = """
CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY,
    attempt INTEGER NOT NULL,
    stage TEXT NOT NULL,
    identity TEXT NOT NULL,
    messages TEXT NOT NULL,
    reply TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS failures (
    key TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    stage TEXT NOT NULL,
    reason TEXT NOT NULL,
    message TEXT NOT NULL
);
"""


@dataclass(frozen=True)
class Failure:
    """A call that failed for good in one run of the command."""

    key: str
    attempt: int
    stage: str
    reason: str
    message: str


@dataclass(frozen=True)
class Entry:
    """A journaled exchange, as `toolbank show` and the report read it."""

    key: str
    attempt: int
    stage: str
    identity: str
    messages: list[dict[str, str]]
    reply: ChatReply


_Statement = tuple[str, tuple[object, ...]]


class Journal:
    """The journal of one run folder. Use as a context manager.

    Raises:
        ToolbankError: the file is damaged, of another layout, or can't be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._replies: dict[str, ChatReply] = {}
        self._waiting: queue.SimpleQueue[
            tuple[_Statement, asyncio.AbstractEventLoop, asyncio.Future[None]] | None
        ] = queue.SimpleQueue()
        self._writer: threading.Thread | None = None

    def __enter__(self) -> Self:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._connect() as connection:
                connection.executescript(_SCHEMA)
                layout = connection.execute("PRAGMA user_version").fetchone()[0]
                if layout not in (0, LAYOUT):
                    raise ToolbankError(
                        f"{self.path}: a journal of layout {layout}, and this version of "
                        f"toolbank reads {LAYOUT}. Use another --out folder."
                    )
                connection.execute(f"PRAGMA user_version = {LAYOUT}")
                for key, reply in connection.execute("SELECT key, reply FROM replies"):
                    self._replies[key] = ChatReply(**json.loads(reply))
        except (sqlite3.Error, ValueError, TypeError) as error:
            raise ToolbankError(self._trouble(error)) from error
        except OSError as error:
            raise ToolbankError(
                f"{self.path.parent}: can't make the folder ({error.strerror or error})."
            ) from error
        self._writer = threading.Thread(target=self._write, name="journal", daemon=True)
        self._writer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._writer is not None:
            self._waiting.put(None)
            self._writer.join()
            self._writer = None

    def __len__(self) -> int:
        return len(self._replies)

    def get(self, key: str) -> ChatReply | None:
        """The reply of an earlier call, or None."""
        return self._replies.get(key)

    async def put(
        self, key: str, identity: str, request: ChatRequest, reply: ChatReply
    ) -> None:
        """Return when the reply is on disk.

        Raises:
            ToolbankError: the disk is full or the file was damaged meanwhile.
        """
        messages = [asdict(message) for message in request.messages]
        await self._commit(
            "INSERT OR IGNORE INTO replies VALUES (?, ?, ?, ?, ?, ?)",
            key,
            request.attempt,
            request.stage,
            identity,
            json.dumps(messages, ensure_ascii=False),
            json.dumps(asdict(reply), ensure_ascii=False),
        )
        self._replies[key] = reply

    async def put_failure(self, failure: Failure) -> None:
        """Return when the failure is on disk."""
        await self._commit(
            "INSERT INTO failures VALUES (?, ?, ?, ?, ?)",
            failure.key,
            failure.attempt,
            failure.stage,
            failure.reason,
            failure.message,
        )

    def entries(self) -> Iterator[Entry]:
        """All exchanges, by attempt and stage."""
        with self._connect() as connection:
            rows = connection.execute(
                "SELECT key, attempt, stage, identity, messages, reply FROM replies "
                "ORDER BY attempt, stage DESC, key"
            )
            for key, attempt, stage, identity, messages, reply in rows:
                yield Entry(
                    key,
                    attempt,
                    stage,
                    identity,
                    json.loads(messages),
                    ChatReply(**json.loads(reply)),
                )

    async def _commit(self, sql: str, *values: object) -> None:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._waiting.put(((sql, values), loop, done))
        await done

    def _write(self) -> None:
        connection = self._connect()
        last = False
        while not last:
            batch = [self._waiting.get()]
            while not self._waiting.empty():
                batch.append(self._waiting.get())
            last = None in batch
            items = [item for item in batch if item is not None]
            error: ToolbankError | None = None
            try:
                with connection:
                    for (sql, values), _, _ in items:
                        connection.execute(sql, values)
            except (sqlite3.Error, ValueError) as trouble:
                error = ToolbankError(self._trouble(trouble))
            for _, loop, done in items:
                # A loop that was stopped in mid-run is closed: nobody waits any more.
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(_settle, done, error)
        connection.close()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def _trouble(self, error: Exception) -> str:
        return (
            f"{self.path}: the journal can't be used ({error}). If the disk is full, make room "
            "and run again. If the file is damaged, move it away: the replies in it would "
            "then be asked for again."
        )


def _settle(done: asyncio.Future[None], error: ToolbankError | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
