"""Files that are either whole or not there."""

import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from toolbank.system.errors import InputError, ToolbankError


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; when the block ends well, fsync it and move it there.

    Raises:
        ToolbankError: the folder can't be written to, or the disk is full.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(descriptor)
    except OSError as error:
        raise ToolbankError(unwritable(path, error)) from error
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        raise ToolbankError(unwritable(path, error)) from error
    finally:
        temporary.unlink(missing_ok=True)


def unwritable(path: Path, error: OSError) -> str:
    """Say that `path` could not be written, and what to do."""
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        return (
            f"{path}: can't write, since a file is where a folder has to be. Move it away, or give "
            "another place with --out."
        )
    mend = "Make room" if error.errno == errno.ENOSPC else "Make it writable"
    return (
        f"{path}: can't write ({error.strerror or error}). {mend}, or give another place "
        "with --out; what was done so far is kept."
    )


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` atomically, as UTF-8."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write `value` to `path` atomically, as indented JSON."""
    write_text(path, json_text(value))


def json_text(value: Any) -> str:
    """Indented JSON, as it stands in a file."""
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Have what the block can't read of a file of text be bad input.

    Raises:
        InputError: the file is missing, can't be read, or is no UTF-8.
    """
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{path}: can't read ({error.strerror or error}). Check that the file is there "
            "and may be read."
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: not UTF-8 text ({error.reason}). Save it as UTF-8."
        ) from error


def read_text(path: Path) -> str:
    """Read a file of UTF-8, with or without a byte order mark.

    Raises:
        InputError: the file is missing, can't be read, or is no UTF-8.
    """
    with reading(path):
        return path.read_text(encoding="utf-8-sig")


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        InputError: the file is missing, can't be read, or is not JSON.
    """
    return parse_json(read_text(path), path)


def parse_json(text: str, path: Path) -> Any:
    """Read the JSON of a file.

    Raises:
        InputError: it is not JSON.
    """
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(
            f"{path}: not valid JSON ({error}). Mend it, or make it again."
        ) from error
    except RecursionError as error:
        raise InputError(
            f"{path}: not valid JSON that is read (nested too deep). Make it again."
        ) from error


def sha256_file(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hex.

    Raises:
        InputError: the file is missing, or can't be read.
    """
    with reading(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
