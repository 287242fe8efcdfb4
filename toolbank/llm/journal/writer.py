"""The thread that writes a journal, and the disk space that it reserves."""

from __future__ import annotations

import asyncio
import os
import queue
import shutil
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from time import monotonic, sleep
from typing import IO

from toolbank.llm.journal import errors
from toolbank.llm.journal.layout import TABLES, Table
from toolbank.system.errors import ToolbankError

# A thousand replies, at two pages of an index and one of the table each.
_MOST_RESERVED = 24 * 2**20
_SHARE = 4


class Reserve:
    """Disk space for the last replies: a nameless file, which is deleted when the disk is full.

    No other process can delete it, and it disappears with this process.
    """

    def __init__(self, journal: Path) -> None:
        self._folder = journal.parent
        self._file: IO[bytes] | None = None
        self._was_held = False

    def hold(self) -> None:
        """Reserve the space once; on a small disk, a quarter of what is free."""
        if self._was_held:
            return
        self._was_held = True
        with suppress(OSError):
            free = shutil.disk_usage(self._folder).free
            self._file = TemporaryFile(dir=self._folder)  # noqa: SIM115 - stays open
            _allot(self._file, min(_MOST_RESERVED, free // _SHARE))

    def give_up(self) -> bool:
        """Free the space; return whether there was any."""
        if self._file is None:
            return False
        self._file.close()
        self._file = None
        return True


def _allot(file: IO[bytes], size: int) -> None:
    """Allocate space, by writing zeros if the system can't."""
    try:
        os.posix_fallocate(file.fileno(), 0, size)
    except (AttributeError, OSError):
        file.write(bytes(size))
        file.flush()


Row = tuple[Table, tuple[object, ...]]

# A statement of many rows takes the interpreter's lock once. With a statement per row, the writer
# would wait for it a hundred times per batch while the calls keep the interpreter busy.
_ROWS_IN_A_STATEMENT = 64
# The cost of a commit hardly depends on its rows, so commits are at least this far apart. A call
# that waits for one keeps no other from being made, unless `concurrency` is 1.
_BETWEEN_COMMITS_S = 0.02


@dataclass(frozen=True)
class _Item:
    rows: tuple[Row, ...]
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[None]


class Writer:
    """Commits all waiting rows at once, so that many calls share one fsync.

    When the disk is full, the rows go into the reserved space, and `write` raises nevertheless,
    so that the run ends.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._reserve = Reserve(path)
        self._full: Exception | None = None
        self._committed = 0.0
        self._waiting: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        # Protects `_is_open` and the queue: nothing is queued after the thread has ended.
        self._lock = threading.Lock()
        self._is_open = True
        self._thread = threading.Thread(
            target=self._write, args=(connection,), name="journal", daemon=True
        )
        self._thread.start()

    async def write(self, *rows: Row) -> None:
        """Write rows, all or none, and return when they are on disk.

        Raises:
            ToolbankError: they can't be written, or the writer is closed.
        """
        loop = asyncio.get_running_loop()
        item = _Item(rows, loop, loop.create_future())
        with self._lock:
            if not self._is_open:
                raise errors.closed(self._path)
            self._waiting.put(item)
        await item.done

    def close(self) -> None:
        """Write the waiting rows, and end the thread."""
        with self._lock:
            self._is_open = False
            self._waiting.put(None)
        self._thread.join()

    def _write(self, connection: sqlite3.Connection) -> None:
        try:
            while self._write_waiting(connection):
                pass
        finally:
            # Whatever ended the thread, nobody may wait for it any longer.
            with self._lock:
                self._is_open = False
            left = [item for item in self._take_waiting() if item is not None]
            _wake(left, [errors.closed(self._path) for _ in left])
            connection.close()
            self._reserve.give_up()

    def _write_waiting(self, connection: sqlite3.Connection) -> bool:
        """Commit the waiting rows; return whether more may come."""
        batch = [self._waiting.get()]
        early = self._committed + _BETWEEN_COMMITS_S - monotonic()
        if early > 0:
            sleep(early)
        batch += self._take_waiting()
        items = [item for item in batch if item is not None]
        outcomes: list[ToolbankError | None] = [
            errors.closed(self._path) for _ in items
        ]
        try:
            outcomes = self._write_batch(connection, items)
        finally:
            self._committed = monotonic()
            _wake(items, outcomes)
        return None not in batch

    def _take_waiting(self) -> list[_Item | None]:
        waiting = []
        while not self._waiting.empty():
            waiting.append(self._waiting.get())
        return waiting

    def _write_batch(
        self, connection: sqlite3.Connection, items: Sequence[_Item]
    ) -> list[ToolbankError | None]:
        """Write the rows of all items; return the error of each, or None."""
        try:
            self._insert(connection, [row for item in items for row in item.rows])
        except Exception as error:
            # A full disk or a lock fails every item; any other error may be due to one item.
            if len(items) == 1 or isinstance(error, sqlite3.OperationalError):
                return [errors.explain(self._path, error) for _ in items]
        else:
            return [
                errors.full_but_kept(self._path, self._full) if self._full else None
                for _ in items
            ]
        return [
            error for item in items for error in self._write_batch(connection, [item])
        ]

    def _insert(self, connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
        self._reserve.hold()
        try:
            _insert(connection, rows)
        except sqlite3.OperationalError as error:
            if not (errors.is_full(self._path, error) and self._reserve.give_up()):
                raise
            self._full = error
            _insert(connection, rows)


def _insert(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    by_table: dict[Table, list[tuple[object, ...]]] = defaultdict(list)
    for table, values in rows:
        by_table[table].append(values)
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        for table in TABLES:
            waiting = by_table[table]
            for start in range(0, len(waiting), _ROWS_IN_A_STATEMENT):
                chunk = waiting[start : start + _ROWS_IN_A_STATEMENT]
                connection.execute(
                    table.insert(len(chunk)), [value for row in chunk for value in row]
                )


def _wake(items: Sequence[_Item], outcomes: Sequence[ToolbankError | None]) -> None:
    """Settle the futures of all items, with one call per loop."""
    by_loop = defaultdict(list)
    for item, error in zip(items, outcomes, strict=True):
        by_loop[item.loop].append((item.done, error))
    for loop, settled in by_loop.items():
        # The loop of an aborted run is closed, and nobody waits in it.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, settled)


def _settle(
    settled: Sequence[tuple[asyncio.Future[None], ToolbankError | None]],
) -> None:
    for done, error in settled:
        if done.done():
            continue
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)
