"""Recognize the layout of a journal and migrate earlier layouts."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sqlite3
import stat
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from tqdm import tqdm

from toolbank.llm.chat import ChatReply, Message, count_tokens
from toolbank.llm.journal import errors
from toolbank.llm.journal.layout import (
    APPLICATION_ID,
    IDENTITIES,
    LAYOUT,
    REPLIES,
    SCHEMA,
    decode,
    encode,
    make_row,
)
from toolbank.system.errors import ToolbankError

_MAGIC = b"SQLite format 3\0"
_USER_VERSION = slice(60, 64)
_APPLICATION_ID = slice(68, 72)
_HEADER = 100
# What a journal of layouts 1 and 2 had in `replies`, when it had no application id.
_EARLIER = (
    {"key", "attempt", "stage", "identity", "messages", "reply"},
    {"key", "attempt", "stage", "identity", "messages", "dictionary", "text"},
)
# Those of earlier layouts have the names of today's.
_INDEXES = ("replies_by_attempt", "replies_by_latency", "failures_by_attempt")
# A journal whose tables are still in its write-ahead file alone is no larger than this.
_MOST_COPIED = 2**20


def is_current(connection: sqlite3.Connection) -> bool:
    """Whether the file is of this layout."""
    return _layout(connection) == LAYOUT


def check_journal(path: Path) -> None:
    """Refuse a file that is there and is no journal.

    The file is only read, and nothing is written next to it, so that the database of another
    program stays as it is, with its write-ahead file.

    Raises:
        InputError: it is no journal.
    """
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            what = "a folder" if stat.S_ISDIR(mode) else "no regular file"
            raise errors.foreign(path, f"it is {what}")
        with path.open("rb") as file:
            header = file.read(_HEADER)
    except FileNotFoundError:
        if path.is_symlink():
            raise errors.foreign(path, "it is a link that leads nowhere") from None
        return
    except OSError as error:
        raise errors.unreadable(path, error) from error
    if not header:
        raise errors.foreign(path, "it is empty")
    if not header.startswith(_MAGIC):
        raise errors.foreign(path, "it is no SQLite file")
    if len(header) < _HEADER:
        raise errors.foreign(path, "it is cut short")
    number = int.from_bytes(header[_APPLICATION_ID])
    if number == APPLICATION_ID:
        return
    if number or not _is_earlier(path):
        layout = int.from_bytes(header[_USER_VERSION])
        what = f"it is the database of another program (application {number}, layout {layout})"
        raise errors.foreign(path, what)


def is_journal(path: Path) -> bool:
    """Whether there is a journal at a path; nothing is written."""
    try:
        check_journal(path)
    except (ToolbankError, sqlite3.Error):
        return False
    return path.exists()


def create(path: Path, source: sqlite3.Connection | None = None) -> None:
    """Make an empty journal, or a copy of one, whole or not at all; one that is there stays.

    Raises:
        sqlite3.Error: it can't be written.
        OSError: it can't be put in its place.
    """
    made = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with closing(sqlite3.connect(made, isolation_level=None)) as connection:
            # Two or three replies a page; a page of the usual 4 kB would be half empty.
            connection.execute("PRAGMA page_size = 8192")
            if source is not None:
                source.backup(connection)
            prepare(connection, path)
            connection.execute("PRAGMA journal_mode = WAL")
        try:
            # Unlike a move, it never takes the place of what another process has just made.
            os.link(made, path)
        except FileExistsError:
            pass
        except OSError:
            # Some file systems have no links.
            if not path.exists():
                made.rename(path)
    finally:
        for left in ("", "-wal", "-shm", "-journal"):
            made.with_name(f"{made.name}{left}").unlink(missing_ok=True)


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
        if layout not in range(LAYOUT):
            raise ToolbankError(
                f"{path}: a journal of layout {layout}, and this version of toolbank reads "
                f"{LAYOUT}. Use another --out folder."
            )
        # A new file has no tables, and one of layout 1 may have been killed before its number.
        tables = _tables(connection)
        for name in tables:
            connection.execute(f"ALTER TABLE {name} RENAME TO old_{name}")
        for name in _INDEXES:
            connection.execute(f"DROP INDEX IF EXISTS {name}")
        for statement in SCHEMA:
            connection.execute(statement)
        if tables:
            _take_over(connection, layout)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {LAYOUT}")


def _take_over(connection: sqlite3.Connection, layout: int) -> None:
    """Move the rows of the old tables into those of today, and drop the old ones.

    Raises:
        ValueError: a row is not of the layout.
        zlib.error: a prompt is damaged.
    """
    if layout >= 2:
        # Layout 2 did not count the tokens of failed tries.
        tokens = ", 0, 0, 0" if layout == 2 else ""
        failures = f"SELECT *{tokens} FROM old_failures ORDER BY rowid"  # noqa: S608
    else:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS old_failures (key, attempt, stage, reason, message)"
        )
        connection.execute(
            "INSERT INTO identities (identity) SELECT DISTINCT identity FROM old_replies"
        )
        connection.execute(IDENTITIES.insert(1), ("",))
        # Layout 1 did not say whose a failure is; it did where the same call had a reply later.
        failures = (
            "SELECT old.key, old.attempt, old.stage, coalesce(replies.identity, "
            "(SELECT id FROM identities WHERE identity = '')), reason, message, 1, 0, 0, 0 "
            "FROM old_failures AS old LEFT JOIN replies USING (key)"
        )
    connection.executemany(REPLIES.insert(1), _make_rows(connection, layout))
    connection.execute(f"INSERT INTO failures {failures}")
    for name in ("old_replies", "old_failures", "dictionaries"):
        connection.execute(f"DROP TABLE IF EXISTS {name}")


def _make_rows(
    connection: sqlite3.Connection, layout: int
) -> Iterator[tuple[object, ...]]:
    """The rows of today; where a model's reply has no tokens, which were paid for, estimated."""
    total = connection.execute("SELECT count(*) FROM old_replies").fetchone()[0]
    replies = tqdm(
        _read_layout_2(connection, layout)
        if layout >= 2
        else _read_layout_1(connection),
        "journal",
        total,
        unit="reply",
        disable=None,
        leave=False,
    )
    for key, attempt, step, identity, content, reply in replies:
        is_paid = reply.latency > 0 or _names_model(identity)
        if is_paid and not (reply.prompt_tokens or reply.completion_tokens):
            prompt = "\n".join(message["content"] for message in decode(content))
            reply = count_tokens(reply, prompt, 0)
        yield identity, *make_row(key, attempt, step, reply, content)


_OldReply = tuple[str, int, str, str, bytes, ChatReply]


def _read_layout_1(connection: sqlite3.Connection) -> Iterator[_OldReply]:
    rows = connection.execute(
        "SELECT key, attempt, stage, identity, messages, reply FROM old_replies "
        "ORDER BY attempt, stage DESC"
    )
    for key, attempt, step, identity, messages, text in rows:
        content = encode(Message(**message) for message in json.loads(messages))
        yield key, attempt, step, identity, content, ChatReply(**json.loads(text))


def _read_layout_2(connection: sqlite3.Connection, layout: int) -> Iterator[_OldReply]:
    """The rows of layout 2, or of layout 3, which says of which replies tokens are estimated."""
    estimated = "old.estimated" if layout > 2 else "0"
    # Prompts were packed against the first one of their step.
    rows = connection.execute(
        "SELECT key, attempt, old.stage, identities.identity, content, messages, text, model, "  # noqa: S608
        f"prompt_tokens, completion_tokens, finish, latency, {estimated} FROM old_replies AS old "
        "JOIN identities ON identities.id = old.identity "
        "LEFT JOIN dictionaries ON dictionaries.id = dictionary ORDER BY old.rowid"
    )
    for key, attempt, step, identity, like, packed, *reply in rows:
        reply[-1] = bool(reply[-1])
        unpacker = zlib.decompressobj(zdict=like or b"")
        yield (
            key,
            attempt,
            step,
            identity,
            unpacker.decompress(packed),
            ChatReply(*reply),
        )


def _names_model(identity: str) -> bool:
    """Whether replies are a model's, by the identity of who gave them."""
    try:
        settings = json.loads(identity)
    except ValueError:
        return False
    return isinstance(settings, dict) and bool(settings.get("model"))


def _is_earlier(path: Path) -> bool:
    """Whether a SQLite file without an application id is a journal of layout 1 or 2."""
    columns = _columns(path)
    log = path.with_name(f"{path.name}-wal")
    if not columns and log.is_file() and path.stat().st_size <= _MOST_COPIED:
        # A new journal of that time, killed before anything was moved out of this file.
        with TemporaryDirectory() as folder:
            copy = Path(folder, path.name)
            shutil.copyfile(path, copy)
            shutil.copyfile(log, copy.with_name(f"{copy.name}-wal"))
            columns = _columns(copy, "mode=rw")
    return any(columns >= names for names in _EARLIER)


def _columns(path: Path, how: str = "mode=ro&immutable=1") -> set[str]:
    """The columns of `replies`. `immutable` has SQLite make no files of its own."""
    uri = f"{path.absolute().as_uri()}?{how}"
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        rows: Sequence[tuple[str]] = connection.execute(
            "SELECT name FROM pragma_table_info('replies')"
        ).fetchall()
    return {name for (name,) in rows}


def _tables(connection: sqlite3.Connection) -> list[str]:
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    return [name for (name,) in found if name in ("replies", "failures")]


def _layout(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
