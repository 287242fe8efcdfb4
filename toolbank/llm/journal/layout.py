"""The tables of a journal and its records."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from toolbank.llm.chat import ChatReply, Message

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


# With a dictionary this takes half the bytes of the best level without, in a fifth of the time.
_LEVEL = 1


def encode(messages: Iterable[Message]) -> bytes:
    """Messages as bytes: a line of JSON with roles and lengths, then the contents as they are."""
    rows = [(message.role, message.content) for message in messages]
    head = json.dumps([[role, len(content)] for role, content in rows])
    return "".join([head, "\n", *(content for _, content in rows)]).encode()


def decode(encoded: bytes) -> list[dict[str, str]]:
    """The messages, each with `role` and `content`.

    Raises:
        ValueError: not made by `encode`.
    """
    head, _, contents = encoded.decode().partition("\n")
    messages, start = [], 0
    for role, length in json.loads(head):
        content = contents[start : start + length]
        messages.append({"role": role, "content": content})
        start += length
    if start != len(contents):
        raise ValueError("the prompt is not whole")
    return messages


def compress(content: bytes, dictionary: bytes | None) -> bytes:
    """Compress with zlib, where given against a preset dictionary that is like the content."""
    if dictionary is None:
        return zlib.compress(content, _LEVEL)
    packer = zlib.compressobj(_LEVEL, zdict=dictionary)
    return packer.compress(content) + packer.flush()


def decompress(packed: bytes, dictionary: bytes | None) -> bytes:
    """What `compress` was given.

    Raises:
        ValueError: not made by `compress` with this dictionary.
    """
    try:
        if dictionary is None:
            return zlib.decompress(packed)
        return zlib.decompressobj(zdict=dictionary).decompress(packed)
    except zlib.error as error:
        raise ValueError(str(error)) from error


@dataclass(frozen=True)
class Failure:
    """A try that gave no reply. `final`: the call was given up in that run of the command."""

    key: str
    attempt: int
    step: str
    reason: str
    message: str
    final: bool
    identity: str


@dataclass(frozen=True)
class Entry:
    """A journaled exchange."""

    key: str
    attempt: int
    step: str
    identity: str
    messages: list[dict[str, str]]
    reply: ChatReply


@dataclass(frozen=True)
class StepUsage:
    """What the calls of one step to one model came to, over all runs of the command.

    The tokens are those of the replies and of failed tries that were charged for; of `estimated`
    replies and tries the endpoint did not report them.
    `failed_tries` is by reason. `latency` has the keys p50, p90, p99 (nearest rank) and max, in
    seconds, over the replies whose latency was measured; it is empty where none was.
    """

    step: str
    identity: str
    replies: int
    prompt_tokens: int
    completion_tokens: int
    failed_tries: dict[str, int] = field(default_factory=dict)
    latency: dict[str, float] = field(default_factory=dict)
    estimated: int = 0
