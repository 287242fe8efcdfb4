"""The layouts that a journal may be of, and how it comes to be of today's."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from toolbank.journal.layout_1 import take_over
from toolbank.journal.schema import LAYOUT, SCHEMA
from toolbank.system.errors import ToolbankError


def is_current(connection: sqlite3.Connection) -> bool:
    """Whether the file is of this layout."""
    return _layout(connection) == LAYOUT


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables of this layout, out of the file's own where it is of an earlier one.

    All of it is one transaction: a kill in the middle leaves the file as it was. `path` is what
    messages call it.

    Raises:
        ToolbankError: the file is of a later layout.
        ValueError: a row is not what the file's layout says.
    """
    if is_current(connection):
        return
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        layout = _layout(connection)
        if layout == LAYOUT:
            return
        if layout not in (0, 1):
            raise ToolbankError(
                f"{path}: a journal of layout {layout}, and this version of toolbank reads "
                f"{LAYOUT}. Use another --out folder."
            )
        # A new file has no tables, and one of layout 1 may have been killed before its number.
        is_new = not _tables(connection)
        for name in _tables(connection):
            connection.execute(f"ALTER TABLE {name} RENAME TO {name}_1")
        for statement in SCHEMA:
            connection.execute(statement)
        if not is_new:
            take_over(connection)
        connection.execute(f"PRAGMA user_version = {LAYOUT}")


def _tables(connection: sqlite3.Connection) -> list[str]:
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    return [name for (name,) in found if name in ("replies", "failures")]


def _layout(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
