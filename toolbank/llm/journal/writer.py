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
_MOST = 24 * 2**20
_SHARE = 4


class Reserve:
    """A nameless file on the journal's disk, which is given up when nothing else fits.

    No other process can take it away, and it goes with this one however that ends.
    """

    def __init__(self, journal: Path) -> None:
        self._folder = journal.parent
        self._file: IO[bytes] | None = None
        self._was_held = False

    def hold(self) -> None:
        """Take the room once, or of a small disk a quarter of what there is."""
        if self._was_held:
            return
        self._was_held = True
        with suppress(OSError):
            free = shutil.disk_usage(self._folder).free
            self._file = TemporaryFile(dir=self._folder)  # noqa: SIM115 - held on
            _allot(self._file, min(_MOST, free // _SHARE))

    def give_up(self) -> bool:
        """Make the room free; gives whether there was any."""
        if self._file is None:
            return False
        self._file.close()
        self._file = None
        return True


def _allot(file: IO[bytes], size: int) -> None:
    """Have the system set room aside, or write zeros where it can't."""
    try:
        os.posix_fallocate(file.fileno(), 0, size)
    except (AttributeError, OSError):
        file.write(bytes(size))
        file.flush()


Row = tuple[Table, tuple[object, ...]]

# A statement of many rows takes the interpreter's lock once: with a statement a row, the
# writer would wait for it a hundred times a batch while the calls keep the interpreter busy.
_ROWS_IN_A_STATEMENT = 64
# Commits cost much the same however many rows they hold; so they don't come closer together. A
# call that waits for one keeps no other from being made, unless `concurrency` is 1.
_BETWEEN_COMMITS_S = 0.02


@dataclass(frozen=True)
class _Item:
    rows: tuple[Row, ...]
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[None]


class Writer:
    """Commits all that waits at once, so that many calls share one fsync.

    When the disk is full, the room in reserve is used up: what comes then is kept and raises
    all the same, so that the run ends.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._reserve = Reserve(path)
        self._full: Exception | None = None
        self._committed = 0.0
        self._waiting: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        # Held where it is asked or changed whether the thread still takes what waits.
        self._lock = threading.Lock()
        self._is_open = True
        self._thread = threading.Thread(
            target=self._write, args=(connection,), name="journal", daemon=True
        )
        self._thread.start()

    async def write(self, *rows: Row) -> None:
        """Return when the rows are on disk: all of them, or none and it raises.

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
        """Write what waits, and end the thread."""
        with self._lock:
            self._is_open = False
            self._waiting.put(None)
        self._thread.join()

    def _write(self, connection: sqlite3.Connection) -> None:
        try:
            while self._write_waiting(connection):
                pass
        finally:
            # Whatever ended the thread, nobody waits for it any more.
            with self._lock:
                self._is_open = False
            left = self._take_waiting()
            _wake(left, [errors.closed(self._path) for _ in left])
            connection.close()
            self._reserve.give_up()

    def _write_waiting(self, connection: sqlite3.Connection) -> bool:
        """Commit what waits, and say whether more may come."""
        batch = [self._waiting.get()]
        early = self._committed + _BETWEEN_COMMITS_S - monotonic()
        if early > 0:
            sleep(early)
        while not self._waiting.empty():
            batch.append(self._waiting.get())
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

    def _take_waiting(self) -> list[_Item]:
        left = []
        while not self._waiting.empty():
            item = self._waiting.get()
            if item is not None:
                left.append(item)
        return left

    def _write_batch(
        self, connection: sqlite3.Connection, items: Sequence[_Item]
    ) -> list[ToolbankError | None]:
        """What became of each item: None where it is on disk."""
        try:
            self._insert(connection, [row for item in items for row in item.rows])
        except Exception as error:
            # A full disk or a lock fails every item; else one of them may be at fault.
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
    """Wake those who wait, each loop once."""
    by_loop = defaultdict(list)
    for item, error in zip(items, outcomes, strict=True):
        by_loop[item.loop].append((item.done, error))
    for loop, settled in by_loop.items():
        # A loop that was stopped in mid-run is closed: nobody waits any more.
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
