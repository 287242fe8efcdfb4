"""The tables of a journal and its records."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolbank.llm.chat import ChatReply, Message

LAYOUT = 4

APPLICATION_ID = 0x74626A72
"""Identifies a journal in SQLite's header ("tbjr"); layouts 1 and 2 have 0."""

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS identities (id INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE)",
    # The checksum is of all columns after it; `messages` are packed by zlib.
    """CREATE TABLE replies (
        identity INTEGER NOT NULL REFERENCES identities,
        checksum INTEGER NOT NULL,
        key TEXT NOT NULL UNIQUE,
        attempt INTEGER NOT NULL,
        stage TEXT NOT NULL,
        model TEXT NOT NULL,
        finish TEXT NOT NULL,
        prompt_tokens INTEGER NOT NULL,
        completion_tokens INTEGER NOT NULL,
        latency REAL NOT NULL,
        estimated INTEGER NOT NULL,
        messages BLOB NOT NULL,
        text TEXT NOT NULL
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
        prompt_tokens INTEGER NOT NULL,
        completion_tokens INTEGER NOT NULL,
        estimated INTEGER NOT NULL
    )""",
    "CREATE INDEX failures_by_attempt ON failures (attempt)",
)

_ID = "(SELECT id FROM identities WHERE identity = ?)"


@dataclass(frozen=True)
class Table:
    """The parts of a statement that changes any number of rows of a table."""

    head: str
    row: str
    tail: str = ""

    def insert(self, rows: int) -> str:
        """Make the statement for so many rows."""
        return self.head + ", ".join([self.row] * rows) + self.tail


# In the order in which rows refer to each other.
IDENTITIES = Table(
    "INSERT INTO identities (identity) VALUES ", "(?)", " ON CONFLICT DO NOTHING"
)
# A damaged reply is replaced by the new one.
DAMAGED = Table("DELETE FROM replies WHERE key IN (", "?", ")")
REPLIES = Table(
    "INSERT INTO replies VALUES ",
    f"({_ID}, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    " ON CONFLICT (key) DO NOTHING",
)
FAILURES = Table("INSERT INTO failures VALUES ", f"(?, ?, ?, {_ID}, ?, ?, ?, ?, ?, ?)")
TABLES = (IDENTITIES, DAMAGED, REPLIES, FAILURES)


def encode(messages: Iterable[Message]) -> bytes:
    """Encode messages: a line of JSON with roles and lengths, then the plain contents."""
    rows = [(message.role, message.content) for message in messages]
    head = json.dumps([[role, len(content)] for role, content in rows])
    return "".join([head, "\n", *(content for _, content in rows)]).encode()


def decode(encoded: bytes) -> list[dict[str, str]]:
    """Decode messages, each with `role` and `content`.

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


def make_row(
    key: str, attempt: int, step: str, reply: ChatReply, messages: bytes
) -> tuple[object, ...]:
    """Make the columns of a reply after its identity, from encoded `messages`."""
    row = (
        key,
        attempt,
        step,
        reply.model,
        reply.finish,
        reply.prompt_tokens,
        reply.completion_tokens,
        float(reply.latency),
        int(reply.estimated),
        _compress(messages),
        reply.text,
    )
    return (_check_row(row), *row)


def read_row(row: Sequence[Any]) -> ChatReply | None:
    """Read a reply from its whole row; None if the row is damaged."""
    _, checksum, *content = row
    try:
        is_whole = _check_row(content) == checksum
    except (AttributeError, TypeError):  # another type than was written
        is_whole = False
    if not is_whole:
        return None
    _, _, _, model, finish, tokens_in, tokens_out, latency, estimated, _, text = content
    return ChatReply(
        text, model, tokens_in, tokens_out, finish, latency, bool(estimated)
    )


def _compress(content: bytes) -> bytes:
    """Compress without a search for repeats, which takes three times as long and saves 25 %."""
    packer = zlib.compressobj(1, wbits=13, memLevel=6, strategy=zlib.Z_HUFFMAN_ONLY)
    return packer.compress(content) + packer.flush()


def _check_row(row: Sequence[Any]) -> int:
    """The CRC-32 of the columns after the checksum."""
    *head, messages, text = row
    checksum = zlib.crc32(repr(head).encode("utf-8", "surrogatepass"))
    checksum = zlib.crc32(messages, checksum)
    return zlib.crc32(text.encode("utf-8", "surrogatepass"), checksum)


@dataclass(frozen=True)
class Failure:
    """A failed try. `final`: the call was not tried again in that run of the command."""

    key: str
    attempt: int
    step: str
    reason: str
    message: str
    final: bool
    identity: str


@dataclass(frozen=True)
class JournalEntry:
    """A journaled exchange."""

    key: str
    attempt: int
    step: str
    identity: str
    messages: list[dict[str, str]]
    reply: ChatReply


@dataclass(frozen=True)
class StepUsage:
    """The calls of one step to one model, over all runs of the command.

    Tokens include those of failed tries that were charged for; for `estimated` replies and tries
    the endpoint did not report them. `failed_tries` is by reason. `latency` has p50, p90, p99
    (nearest rank) and max in seconds; it is empty if none was measured.
    """

    step: str
    identity: str
    replies: int
    prompt_tokens: int
    completion_tokens: int
    failed_tries: dict[str, int] = field(default_factory=dict)
    latency: dict[str, float] = field(default_factory=dict)
    estimated: int = 0
