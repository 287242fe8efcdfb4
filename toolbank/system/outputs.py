"""Write single files where no user's file is written over; and the folders of settings and caches."""

from __future__ import annotations

import os
import shlex
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from toolbank.system.errors import InputError
from toolbank.system.files import write_error, write_text
from toolbank.system.folders import real_path, refuse_run


def check_output(
    path: Path, inputs: Iterable[Path] = (), *, overwrite: bool = False
) -> None:
    """Refuse a file that can't be written without touching what is somebody's.

    A pipe or a device that takes text, such as /dev/stdout, has nothing to lose. With `overwrite`,
    neither has a file that is there already.

    Raises:
        InputError: it is one of `inputs` or a file in one, is there already, or as `check_new_file`
        does.
    """
    for read in inputs:
        if _is_same(path, read) or _is_in(path, read):
            raise InputError(
                f"{path}: would be written over what is read ({read}). {_ANOTHER}"
            )
    if is_stream(path):
        return
    _check_file(path)
    if path.exists() and not (overwrite and path.is_file()):
        raise InputError(
            f"{path}: is there already. Give another --out, or --overwrite to write over it."
        )


def check_new_file(path: Path) -> None:
    """Refuse a file that is there already, or can't be.

    Raises:
        InputError: it is there, a link or a folder, lies in the folder of a run, or its folder is
            missing.
    """
    _check_file(path)
    if path.exists():
        raise InputError(f"{path}: is there already. {_ANOTHER}")


def write_output(
    path: Path, text: str, inputs: Iterable[Path] = (), *, overwrite: bool = False
) -> None:
    """Write a file, whole or not at all, or to a stream.

    Raises:
        InputError: as `check_output` does.
        ToolbankError: it can't be written to.
    """
    check_output(path, inputs, overwrite=overwrite)
    if not is_stream(path):
        write_text(path, text)
        return
    number = _descriptor(path)
    sys.stdout.flush()
    try:
        # Opened anew, a file that the shell has opened would be written over from its start.
        place = os.open(path, os.O_WRONLY) if number is None else os.dup(number)
        with os.fdopen(place, "w", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise write_error(path, error) from error


def is_stream(path: Path) -> bool:
    """Whether what is written to a path goes on to somebody who reads it: a pipe, /dev/stdout."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    is_open = _descriptor(path) is not None
    return is_open or stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


_ANOTHER = "Give another place."
_OPEN = {Path("/dev/stdout"): 1, Path("/dev/stderr"): 2}


def _check_file(path: Path) -> None:
    if path.is_symlink():
        raise InputError(f"{path}: a link. Give the file's own path with --out.")
    if path.is_dir():
        raise InputError(f"{path}: a folder, and a file is written. {_ANOTHER}")
    if not path.parent.is_dir():
        folder = shlex.quote(str(path.parent))
        raise InputError(
            f"{path.parent}: no such folder. Make it (mkdir -p {folder}), or give another --out."
        )
    refuse_run(path, real_path(path).parents)


def _descriptor(path: Path) -> int | None:
    """The number under which the shell has opened it, of /dev/stdout and its like."""
    if path in _OPEN:
        return _OPEN[path]
    is_number = path.parent == Path("/dev/fd") and path.name.isdecimal()
    return int(path.name) if is_number else None


def _is_same(one: Path, other: Path) -> bool:
    with suppress(OSError):
        if one.samefile(other):
            return True
    return real_path(one) == real_path(other)


def _is_in(file: Path, folder: Path) -> bool:
    return file.is_file() and real_path(folder) in real_path(file).parents


_NAME = "toolbank"


def config_folder() -> Path:
    """The folder of the user's settings, as the system has it (`XDG_CONFIG_HOME` on Linux).

    It need not exist yet.
    """
    from platformdirs import user_config_path

    return user_config_path(_NAME, appauthor=False)
