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
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
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
    """A journaled exchange, as `toolbank preview` shows it."""

    key: str
    attempt: int
    stage: str
    identity: str
    messages: list[dict[str, str]]
    reply: ChatReply


_Statement = tuple[str, tuple[object, ...]]
_Waiting = tuple[_Statement, asyncio.AbstractEventLoop, asyncio.Future[None]]

_LOCK_WAIT_S = 5.0
_IN_USE = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class Journal:
    """The journal of one run folder. Use as a context manager.

    Raises:
        ToolbankError: the file is damaged, of another layout, or can't be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._replies: dict[str, ChatReply] = {}
        self._waiting: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._writer: threading.Thread | None = None
        # Held where it is asked or changed whether the writer still takes what waits.
        self._lock = threading.Lock()
        self._is_open = False

    def __enter__(self) -> Self:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = self._connect()
            try:
                self._load(connection)
            except BaseException:
                connection.close()
                raise
        except sqlite3.Error as error:
            raise ToolbankError(self._trouble(error)) from error
        except (ValueError, TypeError) as error:
            raise ToolbankError(self._damage(error)) from error
        except OSError as error:
            raise ToolbankError(
                f"{self.path.parent}: can't make the folder ({error.strerror or error})."
            ) from error
        self._is_open = True
        self._writer = threading.Thread(
            target=self._write, args=(connection,), name="journal", daemon=True
        )
        self._writer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._writer is not None:
            with self._lock:
                self._is_open = False
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
            ToolbankError: the disk is full, another process holds the file, it was damaged
                meanwhile, or the journal is closed.
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
        with closing(self._connect()) as connection:
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

    def _load(self, connection: sqlite3.Connection) -> None:
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
        connection.commit()

    async def _commit(self, sql: str, *values: object) -> None:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        with self._lock:
            if not self._is_open:
                raise self._closed()
            self._waiting.put(((sql, values), loop, done))
        await done

    def _write(self, connection: sqlite3.Connection) -> None:
        try:
            while self._write_waiting(connection):
                pass
        finally:
            # Whatever ended the writer, nobody waits for it any more.
            with self._lock:
                self._is_open = False
            while not self._waiting.empty():
                self._tell([self._waiting.get()], [self._closed()])
            connection.close()

    def _write_waiting(self, connection: sqlite3.Connection) -> bool:
        """Commit what waits, and say whether more may come."""
        batch = [self._waiting.get()]
        while not self._waiting.empty():
            batch.append(self._waiting.get())
        items = [item for item in batch if item is not None]
        errors: list[ToolbankError | None] = [self._closed() for _ in items]
        try:
            errors = self._write_batch(connection, [item[0] for item in items])
        finally:
            self._tell(items, errors)
        return None not in batch

    def _write_batch(
        self, connection: sqlite3.Connection, statements: Sequence[_Statement]
    ) -> list[ToolbankError | None]:
        """What became of each statement: None where it is on disk."""
        try:
            with connection:
                for statement in statements:
                    connection.execute(*statement)
        except Exception as trouble:
            # A full disk or a lock fails every statement; else one of them may be at fault.
            if len(statements) == 1 or isinstance(trouble, sqlite3.OperationalError):
                return [ToolbankError(self._trouble(trouble)) for _ in statements]
        else:
            return [None for _ in statements]
        return [
            error
            for statement in statements
            for error in self._write_batch(connection, [statement])
        ]

    def _tell(
        self,
        items: Sequence[_Waiting | None],
        errors: Sequence[ToolbankError | None],
    ) -> None:
        for item, error in zip(items, errors, strict=True):
            if item is not None:
                _, loop, done = item
                # A loop that was stopped in mid-run is closed: nobody waits any more.
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(_settle, done, error)

    def _connect(self) -> sqlite3.Connection:
        # Made where the journal is opened, and from then on the writer's alone.
        connection = sqlite3.connect(
            self.path, timeout=_LOCK_WAIT_S, check_same_thread=False
        )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def _trouble(self, error: Exception) -> str:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _DAMAGED:
            return self._damage(error)
        if code in _IN_USE:
            return (
                f"{self.path}: another process uses the journal ({error}). Wait until it is "
                "done, or end it, and run again. The replies in the journal are kept."
            )
        if code == sqlite3.SQLITE_FULL:
            return (
                f"{self.path}: no room left on the disk ({error}). Make room and run again. "
                "The replies in the journal are kept."
            )
        return (
            f"{self.path}: the journal can't be written ({error}). Check that its folder can "
            "be written to, and run again. The replies in the journal are kept."
        )

    def _damage(self, error: Exception) -> str:
        return (
            f"{self.path}: the journal is damaged ({error}). Move it away: the replies in it "
            "would then be asked for again."
        )

    def _closed(self) -> ToolbankError:
        return ToolbankError(
            f"{self.path}: the journal is closed, so that nothing more can be kept in it. "
            "Run the same command again."
        )


def _settle(done: asyncio.Future[None], error: ToolbankError | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
