"""Messages for a journal that can't be used."""

from __future__ import annotations

import shlex
import shutil
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toolbank.system.errors import InputError, ToolbankError

_IN_USE = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_NO_ROOM = 2**16
_KEPT = "The replies in the journal are kept."


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Replace errors of SQLite, and of rows that can't be read, by messages for people.

    Raises:
        ToolbankError: in place of the error of the block.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise explain(path, error) from error
    except (ValueError, TypeError, LookupError, zlib.error) as error:
        raise _damaged(path, error) from error


def explain(path: Path, error: Exception) -> ToolbankError:
    """Make a message from an error of SQLite."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _DAMAGED:
        return _damaged(path, error)
    if code in _IN_USE:
        return ToolbankError(
            f"{path}: another process uses the journal ({error}). Wait until it is done, or "
            f"end it, and run again. {_KEPT}"
        )
    if is_full(path, error):
        return ToolbankError(
            f"{path}: the disk is full ({error}). Make room and run the same command again. "
            f"{_KEPT} Those that came since the disk was full are not, and are requested again."
        )
    return unusable(path, error)


def is_full(path: Path, error: Exception) -> bool:
    """Whether the disk is full."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    # If not even the index of the write-ahead file fits, SQLite reports an I/O error.
    return code == sqlite3.SQLITE_FULL or (
        code == sqlite3.SQLITE_IOERR and shutil.disk_usage(path.parent).free < _NO_ROOM
    )


def full_but_kept(path: Path, error: Exception) -> ToolbankError:
    """The disk is full, but the last replies went into the reserved space."""
    return ToolbankError(
        f"{path}: the disk is full ({error}). Make room and run the same command again. Every "
        "reply that came is kept."
    )


def foreign(path: Path, why: str) -> InputError:
    """The file is no journal, and was not touched."""
    return InputError(
        f"{path}: not a journal of replies, or a damaged one: {why}. Nothing in it was changed. "
        "If it belongs to another program, choose another file for the replies. If it was a "
        f"journal, move it away, with {path.name}-wal and {path.name}-shm; its replies are then "
        "requested again."
    )


def too_old(path: Path) -> InputError:
    """The file has the layout before the first that is converted."""
    return InputError(
        f"{path}: a journal of layout 1, which this version of toolbank can't read. Run the command "
        "once with toolbank 0.7, which converts it, or use another --out folder."
    )


def unusable(path: Path, error: Exception) -> ToolbankError:
    """The file can't be opened, created or written."""
    reason = getattr(error, "strerror", None) or error
    return ToolbankError(
        f"{path}: the journal can't be used ({reason}). Check that it and its folder can be read "
        f"and written, and run again. {_KEPT}"
    )


def _damaged(path: Path, error: Exception) -> ToolbankError:
    folder = shlex.quote(str(path.parent / "damaged"))
    return ToolbankError(
        f"{path}: the journal is damaged ({error}). Move it away, with {path.name}-wal and "
        f"{path.name}-shm if they exist; its replies are then requested again:\n"
        f"  mkdir -p {folder} && mv {shlex.quote(str(path))}* {folder}"
    )


def damaged_reply(path: Path, key: str) -> str:
    """One row is not what was written."""
    return (
        f"{path}: the reply with the key {key} is damaged, and is requested again when it is "
        "needed; all others are used. Check the disk if there are more."
    )


def closed(path: Path) -> ToolbankError:
    """Nothing more is written."""
    return ToolbankError(
        f"{path}: the journal is closed and can't keep more replies. Run the same command again."
    )
