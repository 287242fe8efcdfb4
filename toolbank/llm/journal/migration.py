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

from toolbank.llm.chat import ChatReply, count_tokens
from toolbank.llm.journal import errors
from toolbank.llm.journal.layout import (
    APPLICATION_ID,
    LAYOUT,
    REPLIES,
    SCHEMA,
    decode,
    make_row,
)
from toolbank.system.errors import ToolbankError

_MAGIC = b"SQLite format 3\0"
_USER_VERSION = slice(60, 64)
_APPLICATION_ID = slice(68, 72)
_HEADER = 100
# Layouts that are converted. Layouts 1 and 2 had no application id, and these columns.
_EARLIER = (2, 3)
_LAYOUT_1 = {"key", "attempt", "stage", "identity", "messages", "reply"}
_LAYOUT_2 = {"key", "attempt", "stage", "identity", "messages", "dictionary", "text"}
# Earlier layouts have the same names.
_INDEXES = ("replies_by_attempt", "replies_by_latency", "failures_by_attempt")
# A journal whose tables are still in its write-ahead file alone is no larger than this.
_MOST_COPIED = 2**20


def is_current(connection: sqlite3.Connection) -> bool:
    """Whether the file has this layout."""
    return _layout(connection) == LAYOUT


def check_journal(path: Path) -> None:
    """Refuse an existing file that is no journal.

    The file is only read and nothing is written next to it, so another program's database and its
    write-ahead file stay unchanged.

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
        raise errors.unusable(path, error) from error
    if not header:
        raise errors.foreign(path, "it is empty")
    if not header.startswith(_MAGIC):
        raise errors.foreign(path, "it is no SQLite file")
    if len(header) < _HEADER:
        raise errors.foreign(path, "it is cut short")
    number = int.from_bytes(header[_APPLICATION_ID])
    if number == APPLICATION_ID:
        return
    columns = set() if number else _read_columns(path)
    if columns >= _LAYOUT_1:
        raise errors.too_old(path)
    if not columns >= _LAYOUT_2:
        layout = int.from_bytes(header[_USER_VERSION])
        what = f"it is the database of another program (application {number}, layout {layout})"
        raise errors.foreign(path, what)


def is_journal(path: Path) -> bool:
    """Whether there is a journal at a path; write nothing."""
    try:
        check_journal(path)
    except (ToolbankError, sqlite3.Error):
        return False
    return path.exists()


def create(path: Path, source: sqlite3.Connection | None = None) -> None:
    """Create an empty journal or a copy of `source`, whole or not at all; never replace a file.

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
    """Create the tables of this layout, or convert those of an earlier one, in one transaction.

    `path` is the file's name in messages.

    Raises:
        ToolbankError: the file has a later layout.
        ValueError: a row is not what the file's layout says.
    """
    if is_current(connection):
        return
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        layout = _layout(connection)
        if layout == LAYOUT:
            return
        if layout not in (0, *_EARLIER):
            raise ToolbankError(
                f"{path}: a journal of layout {layout}, and this version of toolbank reads "
                f"layouts {_EARLIER[0]} to {LAYOUT}. Use another --out folder."
            )
        if layout:
            for name in ("replies", "failures"):
                connection.execute(f"ALTER TABLE {name} RENAME TO old_{name}")
            for name in _INDEXES:
                connection.execute(f"DROP INDEX IF EXISTS {name}")
        for statement in SCHEMA:
            connection.execute(statement)
        if layout:
            _convert(connection, layout)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {LAYOUT}")


def _convert(connection: sqlite3.Connection, layout: int) -> None:
    """Move the rows of the old tables into the new ones, and drop the old ones.

    Raises:
        ValueError: a row is not of the layout.
        zlib.error: a prompt is damaged.
    """
    connection.executemany(REPLIES.insert(1), _make_rows(connection, layout))
    # Layout 2 did not count the tokens of failed tries.
    tokens = ", 0, 0, 0" if layout == 2 else ""
    connection.execute(
        f"INSERT INTO failures SELECT *{tokens} FROM old_failures ORDER BY rowid"  # noqa: S608
    )
    for name in ("old_replies", "old_failures", "dictionaries"):
        connection.execute(f"DROP TABLE {name}")


def _make_rows(
    connection: sqlite3.Connection, layout: int
) -> Iterator[tuple[object, ...]]:
    """Make the rows of this layout, and estimate the tokens of paid replies that have none."""
    total = connection.execute("SELECT count(*) FROM old_replies").fetchone()[0]
    # Layout 3 says which replies have estimated tokens.
    estimated = "old.estimated" if layout > 2 else "0"
    # Prompts were packed against the first one of their step.
    rows = connection.execute(
        "SELECT key, attempt, old.stage, identities.identity, content, messages, text, model, "  # noqa: S608
        f"prompt_tokens, completion_tokens, finish, latency, {estimated} FROM old_replies AS old "
        "JOIN identities ON identities.id = old.identity "
        "LEFT JOIN dictionaries ON dictionaries.id = dictionary ORDER BY old.rowid"
    )
    for key, attempt, step, identity, like, packed, *columns in tqdm(
        rows, "journal", total, unit="reply", disable=None, leave=False
    ):
        content = zlib.decompressobj(zdict=like or b"").decompress(packed)
        columns[-1] = bool(columns[-1])
        reply = ChatReply(*columns)
        is_paid = reply.latency > 0 or _names_model(identity)
        if is_paid and not (reply.prompt_tokens or reply.completion_tokens):
            prompt = "\n".join(message["content"] for message in decode(content))
            reply = count_tokens(reply, prompt, 0)
        yield identity, *make_row(key, attempt, step, reply, content)


def _names_model(identity: str) -> bool:
    """Whether an engine's identity names a model."""
    try:
        settings = json.loads(identity)
    except ValueError:
        return False
    return isinstance(settings, dict) and bool(settings.get("model"))


def _read_columns(path: Path) -> set[str]:
    """Read the columns of `replies` in a SQLite file, without a change to it or its folder."""
    columns = _columns(path)
    log = path.with_name(f"{path.name}-wal")
    if not columns and log.is_file() and path.stat().st_size <= _MOST_COPIED:
        # A new journal of layout 2 that was killed before its tables left the write-ahead file.
        with TemporaryDirectory() as folder:
            copy = Path(folder, path.name)
            shutil.copyfile(path, copy)
            shutil.copyfile(log, copy.with_name(f"{copy.name}-wal"))
            columns = _columns(copy, "mode=rw")
    return columns


def _columns(path: Path, how: str = "mode=ro&immutable=1") -> set[str]:
    # With `immutable` SQLite creates no files of its own.
    uri = f"{path.absolute().as_uri()}?{how}"
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        rows: Sequence[tuple[str]] = connection.execute(
            "SELECT name FROM pragma_table_info('replies')"
        ).fetchall()
    return {name for (name,) in rows}


def _layout(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
