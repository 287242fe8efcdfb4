"""Records that lie on disk while a process lasts."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar, overload

from pydantic import BaseModel, TypeAdapter

from toolbank.system.errors import ToolbankError

_Record = TypeVar("_Record", bound=BaseModel)
_Kept = TypeVar("_Kept")

# About 15 MB of attempts. With a thousand calls in flight, hardly more wait for a slow one.
_MOST_HELD = 4000


class Spool(Sequence[_Record], Generic[_Record]):
    """A list of records of one kind in a temporary file, which ends with the process.

    Raises:
        ToolbankError: the folder for temporary files is full.
    """

    def __init__(self, kind: type[_Record]) -> None:
        self._kind = kind
        self._count = 0
        self._database = open_temporary()
        self._database.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, row TEXT)")

    def append(self, record: _Record) -> None:
        """Put a record at the end."""
        write_temporary(
            self._database,
            "INSERT INTO rows VALUES (?, ?)",
            [(self._count, record.model_dump_json())],
        )
        self._count += 1

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[_Record]:
        for (row,) in self._database.execute("SELECT row FROM rows ORDER BY id"):
            yield self._kind.model_validate_json(row)

    @overload
    def __getitem__(self, index: int) -> _Record: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[_Record]: ...

    def __getitem__(self, index: int | slice) -> _Record | Sequence[_Record]:
        if isinstance(index, slice):
            return [self[position] for position in range(self._count)[index]]
        found = self._database.execute(
            "SELECT row FROM rows WHERE id = ?", (range(self._count)[index],)
        )
        return self._kind.model_validate_json(found.fetchone()[0])


class Shelf(Generic[_Kept]):
    """Records by number until they are taken: some thousands in memory, others on disk.

    Raises:
        ToolbankError: the folder for temporary files is full.
    """

    def __init__(self, kind: type[_Kept]) -> None:
        self._adapter = TypeAdapter(kind)
        self._held: dict[int, _Kept] = {}
        self._spooled = 0
        self._database = open_temporary()
        self._database.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, row BLOB)")

    def put(self, number: int, record: _Kept) -> None:
        """Keep a record under a number that no other has."""
        if len(self._held) < _MOST_HELD:
            self._held[number] = record
            return
        row = (number, self._adapter.dump_json(record))
        write_temporary(self._database, "INSERT INTO rows VALUES (?, ?)", [row])
        self._spooled += 1

    def take(self, number: int) -> _Kept | None:
        """Give out the record of a number, if there is one."""
        if number in self._held or not self._spooled:
            return self._held.pop(number, None)
        found = self._database.execute(
            "SELECT row FROM rows WHERE id = ?", (number,)
        ).fetchone()
        if found is None:
            return None
        self._database.execute("DELETE FROM rows WHERE id = ?", (number,))
        self._spooled -= 1
        return self._adapter.validate_json(found[0])


def open_temporary() -> sqlite3.Connection:
    """A database that SQLite keeps in a deleted file, and at most 2 MB of it in memory."""
    database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    database.execute("PRAGMA journal_mode = OFF")
    return database


def write_temporary(
    database: sqlite3.Connection, sql: str, rows: Sequence[tuple[object, ...]]
) -> None:
    """Put rows into a temporary database.

    Raises:
        ToolbankError: the folder for temporary files is full.
    """
    try:
        database.executemany(sql, rows)
    except sqlite3.OperationalError as error:
        raise ToolbankError(
            f"the folder for temporary files can't hold more ({error}). Make room in it, or name "
            "another one in the environment variable SQLITE_TMPDIR, and run the same command "
            "again: the replies are in the journal."
        ) from error
