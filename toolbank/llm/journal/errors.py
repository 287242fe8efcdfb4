"""What a person is told when the journal can't be used."""

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
    """Say what SQLite, or a row that can't be read, means to a person.

    Raises:
        ToolbankError: in place of the error of the block.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise explain(path, error) from error
    except (ValueError, TypeError, LookupError, zlib.error) as error:
        raise damaged(path, error) from error


def explain(path: Path, error: Exception) -> ToolbankError:
    """What SQLite raised, and what to do about it."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _DAMAGED:
        return damaged(path, error)
    if code in _IN_USE:
        return ToolbankError(
            f"{path}: another process uses the journal ({error}). Wait until it is done, or "
            f"end it, and run again. {_KEPT}"
        )
    if is_full(path, error):
        return ToolbankError(
            f"{_no_room(path, error)} The replies in the journal are kept; those that came since "
            "the disk was full are not, and are asked for again."
        )
    return ToolbankError(
        f"{path}: the journal can't be written ({error}). Check that its folder can be "
        f"written to, and run again. {_KEPT}"
    )


def is_full(path: Path, error: Exception) -> bool:
    """Whether there is no room left on the disk."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    # Where not even the index of the write-ahead file fits, SQLite speaks of an I/O error.
    return code == sqlite3.SQLITE_FULL or (
        code == sqlite3.SQLITE_IOERR and shutil.disk_usage(path.parent).free < _NO_ROOM
    )


def full_but_kept(path: Path, error: Exception) -> ToolbankError:
    """No room is left, but the last replies went into what was held in reserve."""
    return ToolbankError(f"{_no_room(path, error)} Every reply that came is kept.")


def foreign(path: Path, why: str) -> InputError:
    """The file is no journal, and was not touched."""
    return InputError(
        f"{path}: not a journal of replies, or a damaged one: {why}. Nothing in it was changed. "
        "If it is another program's file, name another place for the replies. If it was a journal, "
        f"move it away, with {path.name}-wal and {path.name}-shm; the replies in it are then asked "
        "for again."
    )


def too_old(path: Path) -> InputError:
    """The file is of the layout before the first that is converted."""
    return InputError(
        f"{path}: a journal of layout 1, which this version of toolbank can't read. Run the command "
        "once with toolbank 0.7, which converts it, or use another --out folder."
    )


def unreadable(path: Path, error: OSError) -> ToolbankError:
    """The system doesn't let the file be read or made."""
    return ToolbankError(
        f"{path}: the journal can't be opened ({error.strerror or error}). Check that it and its "
        f"folder can be read and written to, and run again. {_KEPT}"
    )


def damaged(path: Path, error: Exception) -> ToolbankError:
    """The file is no journal, or not a whole one."""
    folder = shlex.quote(str(path.parent / "damaged"))
    return ToolbankError(
        f"{path}: the journal is damaged ({error}). Move it away, with the files that lie beside "
        f"it ({path.name}-wal and {path.name}-shm); the replies in it are then asked for "
        f"again:\n  mkdir -p {folder} && mv {shlex.quote(str(path))}* {folder}"
    )


def damaged_reply(path: Path, key: str) -> str:
    """What to say of one row that is not what was written."""
    return (
        f"{path}: the reply with the key {key} is damaged, and is asked for again where it is "
        "needed; all others are used. Check the disk if there are more."
    )


def closed(path: Path) -> ToolbankError:
    """Nothing more is written."""
    return ToolbankError(
        f"{path}: the journal is closed, so that nothing more can be kept in it. "
        "Run the same command again."
    )


def _no_room(path: Path, error: Exception) -> str:
    return f"{path}: no room left on the disk ({error}). Make room and run the same command again."
