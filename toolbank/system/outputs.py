"""Write single files without overwriting those of the user; the folders of settings and caches."""

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
    """Check that a file can be written without destroying one of the user.

    A pipe or a device such as /dev/stdout is always allowed; an existing file only with
    `overwrite`.

    Raises:
        InputError: it is one of `inputs` or in one, exists already, or as `check_new_file`.
    """
    for read in inputs:
        if _is_same(path, read) or _is_in(path, read):
            raise InputError(
                f"{path}: would overwrite what is read ({read}). {_ANOTHER}"
            )
    if is_stream(path):
        return
    _check_file(path)
    if path.exists() and not (overwrite and path.is_file()):
        raise InputError(
            f"{path}: is there already. Give another file, or --overwrite to replace it."
        )


def check_new_file(path: Path) -> None:
    """Check that a file can be created.

    Raises:
        InputError: it exists, is a link or a folder, is in the folder of a run, or its folder is
            missing.
    """
    _check_file(path)
    if path.exists():
        raise InputError(f"{path}: is there already. {_ANOTHER}")


def write_output(
    path: Path, text: str, inputs: Iterable[Path] = (), *, overwrite: bool = False
) -> None:
    """Write a file atomically, or to a stream.

    Raises:
        InputError: as `check_output`.
        ToolbankError: it can't be written.
    """
    check_output(path, inputs, overwrite=overwrite)
    if not is_stream(path):
        write_text(path, text)
        return
    number = _descriptor(path)
    sys.stdout.flush()
    try:
        # Opening a file that the shell has opened would truncate it.
        place = os.open(path, os.O_WRONLY) if number is None else os.dup(number)
        with os.fdopen(place, "w", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise write_error(path, error) from error


def is_stream(path: Path) -> bool:
    """Check whether a path is a pipe or a device, such as /dev/stdout."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    is_open = _descriptor(path) is not None
    return is_open or stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


_ANOTHER = "Give another place."
_OPEN = {Path("/dev/stdout"): 1, Path("/dev/stderr"): 2}


def _check_file(path: Path) -> None:
    if path == Path("-"):
        raise InputError("-: not the name of a file. To print it, give /dev/stdout.")
    if path.is_symlink():
        raise InputError(f"{path}: a link. Give the path of the file itself.")
    if path.is_dir():
        raise InputError(f"{path}: a folder, not a file. {_ANOTHER}")
    if not path.parent.is_dir():
        folder = shlex.quote(str(path.parent))
        raise InputError(
            f"{path.parent}: no such folder. Create it (mkdir -p {folder}), or use another one."
        )
    refuse_run(path, real_path(path).parents)


def _descriptor(path: Path) -> int | None:
    """Return the number of an open file descriptor, of /dev/stdout and the like."""
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
    """Return the folder of the user's settings (`XDG_CONFIG_HOME` on Linux); it may not exist."""
    from platformdirs import user_config_path

    return user_config_path(_NAME, appauthor=False)


def cache_folder() -> Path:
    """Return the folder of the user's cache (`XDG_CACHE_HOME` on Linux); it may not exist."""
    from platformdirs import user_cache_path

    return user_cache_path(_NAME, appauthor=False)
