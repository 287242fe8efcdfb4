"""The journal's tables."""

from __future__ import annotations

from dataclasses import dataclass

LAYOUT = 3

APPLICATION_ID = 0x74626A72
"""What SQLite's header says of a journal ("tbjr"); those of layouts 1 and 2 have 0."""

SCHEMA = (
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
        text TEXT NOT NULL,
        estimated INTEGER NOT NULL DEFAULT 0
    )""",
    "CREATE INDEX replies_by_attempt ON replies (attempt)",
    # Holds all that the accounts sum, so that they never read the texts.
    "CREATE INDEX replies_by_latency ON replies "
    "(stage, identity, latency, prompt_tokens, completion_tokens, estimated)",
    """CREATE TABLE failures (
        key TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        stage TEXT NOT NULL,
        identity INTEGER NOT NULL REFERENCES identities,
        reason TEXT NOT NULL,
        message TEXT NOT NULL,
        final INTEGER NOT NULL,
        prompt_tokens INTEGER NOT NULL DEFAULT 0,
        completion_tokens INTEGER NOT NULL DEFAULT 0,
        estimated INTEGER NOT NULL DEFAULT 0
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
    f"(?, ?, ?, {_ID}, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    " ON CONFLICT (key) DO NOTHING",
)
FAILURES = Table("INSERT INTO failures VALUES ", f"(?, ?, ?, {_ID}, ?, ?, ?, ?, ?, ?)")
TABLES = (IDENTITIES, DICTIONARIES, REPLIES, FAILURES)
