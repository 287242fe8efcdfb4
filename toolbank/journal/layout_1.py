"""Taking over what a journal of layout 1 holds: a reply a row, as JSON."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator

from tqdm import tqdm

from toolbank.chat.chat import Message
from toolbank.journal.prompts import compress, encode
from toolbank.journal.schema import DICTIONARIES, IDENTITIES, REPLIES


def take_over(connection: sqlite3.Connection) -> None:
    """Move the rows of `replies_1` and `failures_1` into the tables of today, and drop those.

    Raises:
        ValueError: a row is not of layout 1.
    """
    connection.execute(
        "CREATE TABLE IF NOT EXISTS failures_1 (key, attempt, stage, reason, message)"
    )
    connection.execute(
        "INSERT INTO identities (identity) SELECT DISTINCT identity FROM replies_1"
    )
    connection.executemany(REPLIES.insert(1), _read_replies(connection))
    # Layout 1 did not say whose a failure is; it did where the same call had a reply later.
    connection.execute(IDENTITIES.insert(1), ("",))
    connection.execute(
        "INSERT INTO failures SELECT old.key, old.attempt, old.stage, "
        "coalesce(replies.identity, (SELECT id FROM identities WHERE identity = '')), "
        "reason, message, 1, 0, 0, 0 FROM failures_1 AS old LEFT JOIN replies USING (key)"
    )
    connection.execute("DROP TABLE replies_1")
    connection.execute("DROP TABLE failures_1")


def _read_replies(connection: sqlite3.Connection) -> Iterator[tuple[object, ...]]:
    dictionaries: dict[str, tuple[int, bytes]] = {}
    total = connection.execute("SELECT count(*) FROM replies_1").fetchone()[0]
    rows = connection.execute(
        "SELECT key, attempt, stage, identity, messages, reply FROM replies_1 "
        "ORDER BY attempt, stage DESC"
    )
    shown = tqdm(rows, "journal", total, unit="reply", disable=None, leave=False)
    for key, attempt, stage, identity, messages, reply in shown:
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
            False,
        )
