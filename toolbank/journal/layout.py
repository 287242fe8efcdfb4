"""The journal's tables, and how a file of an earlier layout becomes one of this."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from tqdm import tqdm

from toolbank.chat.chat import Message
from toolbank.journal.prompts import compress, encode

LAYOUT = 2

_SCHEMA = (
    "CREATE TABLE identities (id INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE)",
    # The number is the CRC-32 of the content.
    "CREATE TABLE dictionaries ("
    "id INTEGER PRIMARY KEY, stage TEXT NOT NULL, content BLOB NOT NULL)",
    """CREATE TABLE replies (
        key TEXT NOT NULL UNIQUE,
        attempt INTEGER NOT NULL,
        stage TEXT NOT NULL,
        identity INTEGER NOT NULL REFERENCES identities,
        model TEXT NOT NULL,
        finish TEXT NOT NULL,
        prompt_tokens INTEGER NOT NULL,
        completion_tokens INTEGER NOT NULL,
        latency REAL NOT NULL,
        dictionary INTEGER REFERENCES dictionaries,
        messages BLOB NOT NULL,
        text TEXT NOT NULL
    )""",
    "CREATE INDEX replies_by_attempt ON replies (attempt)",
    # Holds all that the accounts sum, so that they never read the texts.
    "CREATE INDEX replies_by_latency ON replies "
    "(stage, identity, latency, prompt_tokens, completion_tokens)",
    """CREATE TABLE failures (
        key TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        stage TEXT NOT NULL,
        identity INTEGER NOT NULL REFERENCES identities,
        reason TEXT NOT NULL,
        message TEXT NOT NULL,
        final INTEGER NOT NULL
    )""",
    "CREATE INDEX failures_by_attempt ON failures (attempt)",
)

_ID = "(SELECT id FROM identities WHERE identity = ?)"


@dataclass(frozen=True)
class Table:
    """How rows are put into a table, any number in one statement."""

    head: str
    row: str
    tail: str = ""

    def insert(self, rows: int) -> str:
        """The statement that puts in so many rows."""
        return self.head + ", ".join([self.row] * rows) + self.tail


# In the order in which rows refer to each other.
IDENTITIES = Table(
    "INSERT INTO identities (identity) VALUES ", "(?)", " ON CONFLICT DO NOTHING"
)
DICTIONARIES = Table(
    "INSERT INTO dictionaries VALUES ", "(?, ?, ?)", " ON CONFLICT DO NOTHING"
)
REPLIES = Table(
    "INSERT INTO replies VALUES ",
    f"(?, ?, ?, {_ID}, ?, ?, ?, ?, ?, ?, ?, ?)",
    " ON CONFLICT (key) DO NOTHING",
)
FAILURES = Table("INSERT INTO failures VALUES ", f"(?, ?, ?, {_ID}, ?, ?, ?)")
TABLES = (IDENTITIES, DICTIONARIES, REPLIES, FAILURES)


class UnknownLayoutError(Exception):
    """A file of a layout that this version can't read."""

    def __init__(self, layout: int) -> None:
        super().__init__(layout)
        self.layout = layout


def is_current(connection: sqlite3.Connection) -> bool:
    """Whether the file is of this layout."""
    return _layout(connection) == LAYOUT


def prepare(connection: sqlite3.Connection) -> None:
    """Make the tables of this layout, out of the file's own where it is of an earlier one.

    All of it is one transaction: a kill in the middle leaves the file as it was.

    Raises:
        UnknownLayoutError: the file is of a later layout.
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
            raise UnknownLayoutError(layout)
        # A new file has no tables, and one of layout 1 may have been killed before its number.
        held = [name for name in ("replies", "failures") if _has(connection, name)]
        for name in held:
            connection.execute(f"ALTER TABLE {name} RENAME TO {name}_1")
        for statement in _SCHEMA:
            connection.execute(statement)
        if "replies" in held:
            _take_over_replies(connection)
        if "failures" in held:
            _take_over_failures(connection)
        for name in held:
            connection.execute(f"DROP TABLE {name}_1")
        connection.execute(f"PRAGMA user_version = {LAYOUT}")


def _layout(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _has(connection: sqlite3.Connection, table: str) -> bool:
    found = connection.execute(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)
    )
    return found.fetchone() is not None


def _take_over_replies(connection: sqlite3.Connection) -> None:
    connection.execute(
        "INSERT INTO identities (identity) SELECT DISTINCT identity FROM replies_1"
    )
    connection.executemany(REPLIES.insert(1), _old_replies(connection))


def _old_replies(connection: sqlite3.Connection) -> Iterator[tuple[object, ...]]:
    dictionaries: dict[str, tuple[int, bytes]] = {}
    total = connection.execute("SELECT count(*) FROM replies_1").fetchone()[0]
    rows = connection.execute(
        "SELECT key, attempt, stage, identity, messages, reply FROM replies_1"
    )
    told = tqdm(rows, "journal", total, unit="reply", disable=None, leave=False)
    for key, attempt, stage, identity, messages, reply in told:
        content = encode(
            Message(message["role"], message["content"])
            for message in json.loads(messages)
        )
        if stage not in dictionaries:
            dictionaries[stage] = (zlib.crc32(content), content)
            connection.execute(
                DICTIONARIES.insert(1), (zlib.crc32(content), stage, content)
            )
        number, dictionary = dictionaries[stage]
        said = json.loads(reply)
        yield (
            key,
            attempt,
            stage,
            identity,
            said["model"],
            said.get("finish", "stop"),
            said.get("prompt_tokens", 0),
            said.get("completion_tokens", 0),
            said.get("latency", 0.0),
            number,
            compress(content, dictionary),
            said["text"],
        )


def _take_over_failures(connection: sqlite3.Connection) -> None:
    """Layout 1 did not say who was asked; it did where the same call had a reply later."""
    connection.execute(IDENTITIES.insert(1), ("",))
    connection.execute(
        "INSERT INTO failures SELECT old.key, old.attempt, old.stage, "
        "coalesce(replies.identity, (SELECT id FROM identities WHERE identity = '')), "
        "reason, message, 1 FROM failures_1 AS old LEFT JOIN replies USING (key)"
    )
