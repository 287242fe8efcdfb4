"""Decide where the program may write: no user's file is overwritten and no user's folder is emptied."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.files import (
    read_json,
    sha256_file,
    unwritable,
    write_json,
    write_text,
)

STAGES, ORIGIN, OWNER = "stages.json", "origin.json", ".lock.owner"
"""Files that a run leaves in its folder, by which it is known again."""

_STAMP = {"key", "complete", "outputs"}
_ORIGIN = {"name", "seed", "recipe_sha256"}
_CRAWL = {"objects", "left_out", "failed_pages"}
_LOCKS = (".lock", OWNER)


def is_run_folder(path: Path) -> bool:
    """Whether a folder is that of a run: it holds a recipe, and a run has put it there.

    A folder with a recipe.yaml that somebody wrote by hand is not.
    """
    return (path / "recipe.yaml").is_file() and _has_run_in(path)


def is_crawl_folder(path: Path) -> bool:
    """Whether a folder is that of a crawl."""
    record = _read_object(path / "crawl.json")
    return record is not None and record.keys() >= _CRAWL


def check_run_folder(path: Path) -> None:
    """Refuse a folder that no run may have.

    Raises:
        InputError: as `check_folder` does.
    """
    check_folder(path, "a run", _has_run_in)


def check_no_link(paths: Iterable[Path]) -> None:
    """Refuse links where a run writes, be it one of `paths` or a folder under one.

    Raises:
        InputError: there is one.
    """
    for path in paths:
        folders = (
            Path(where, name) for where, names, _ in os.walk(path) for name in names
        )
        link = next(filter(Path.is_symlink, itertools.chain([path], folders)), None)
        if link is not None:
            raise InputError(
                f"{link}: a link, which no run writes to. Put the folder or file itself there, move "
                "the link away, or give another --out."
            )


def check_folder(path: Path, what: str, is_ours: Callable[[Path], bool]) -> None:
    """Refuse a folder in which `what`, such as "a run", can't be without touching what is there.

    Raises:
        InputError: as `check_place` does where it is not ours, or it holds something.
    """
    _check_rank(path, what)
    if is_ours(path):
        return
    check_place(path, what)
    entries = path.iterdir() if path.is_dir() else ()
    first = min((entry for entry in entries if _counts(entry)), default=None)
    if first is not None:
        raise InputError(
            f"{path}: holds {first.name}, and is not the folder of {what}. Nothing was written. "
            f"--out is the folder of {what} itself, and not where it is made: give a new one, "
            f"such as --out {shlex.quote(str(path / what.split()[-1]))}, or an empty one."
        )


def check_place(path: Path, what: str) -> None:
    """Refuse a place where no folder of the program's can be, whatever it holds.

    Raises:
        InputError: it is a file, the root of the disk or the user's home, or the folder of a run
            or in one.
    """
    _check_rank(path, what)
    if os.path.lexists(path) and not path.is_dir():
        kind = "a file"
        if path.is_symlink():
            kind = f"a link that leads {'to a file' if path.exists() else 'nowhere'}"
        raise InputError(f"{path}: {kind}, and {what} needs a folder. {_ANOTHER}")
    _refuse_run(path, (path, *_real(path).parents))


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
        raise ToolbankError(unwritable(path, error)) from error


def is_stream(path: Path) -> bool:
    """Whether what is written to a path goes on to somebody who reads it: a pipe, /dev/stdout."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    is_open = _descriptor(path) is not None
    return is_open or stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def set_aside(folder: Path, paths: Iterable[Path]) -> Path | None:
    """Move what is there of these, in `folder`, to a new folder replaced/N in it; gives that.

    Raises:
        ToolbankError: it can't be moved.
    """
    there = [path for path in paths if os.path.lexists(path)]
    if not there:
        return None
    taken = {path.name for path in (folder / "replaced").glob("*")}
    numbers = (str(number) for number in itertools.count(1))
    target = folder / "replaced" / next(n for n in numbers if n not in taken)
    try:
        for path in there:
            place = target / path.relative_to(folder)
            place.parent.mkdir(parents=True, exist_ok=True)
            path.rename(place)
    except OSError as error:
        raise ToolbankError(unwritable(target, error)) from error
    return target


_ANOTHER = "Give another place."
_OPEN = {Path("/dev/stdout"): 1, Path("/dev/stderr"): 2}


def _has_run_in(path: Path) -> bool:
    """Whether a run has begun in a folder."""
    if (_read_object(path / ORIGIN) or {}).keys() >= _ORIGIN:
        return True
    stamps = (_read_object(path / STAGES) or {}).values()
    if stamps and all(isinstance(s, dict) and s.keys() >= _STAMP for s in stamps):
        return True
    # Where those are damaged or lost, it is still no one else's.
    with suppress(OSError, UnicodeDecodeError):
        return (path / OWNER).read_text(encoding="utf-8").startswith("process ")
    return False


def _check_rank(path: Path, what: str) -> None:
    place = _real(path)
    if place == Path(place.anchor):
        name = "the root of the disk"
    elif place == _real(Path.home()):
        name = "your home folder"
    else:
        return
    raise InputError(
        f"{path}: {name}, and {what} needs a folder of its own. {_ANOTHER}"
    )


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
    _refuse_run(path, _real(path).parents)


def _descriptor(path: Path) -> int | None:
    """The number under which the shell has opened it, of /dev/stdout and its like."""
    if path in _OPEN:
        return _OPEN[path]
    is_number = path.parent == Path("/dev/fd") and path.name.isdecimal()
    return int(path.name) if is_number else None


def _refuse_run(path: Path, folders: Iterable[Path]) -> None:
    run = next(filter(is_run_folder, folders), None)
    if run is not None:
        raise InputError(f"{path}: in the folder of a run ({run}). {_ANOTHER}")


def _counts(entry: Path) -> bool:
    """Whether something in a folder makes it somebody's.

    Hidden files don't, and neither do the pages that a crawl has kept or an empty lock.
    """
    if entry.name in _LOCKS:
        return entry.is_symlink() or entry.is_dir() or entry.stat().st_size > 0
    if entry.name == "cache" and entry.is_dir():
        return not all(_keeps_pages(inner) for inner in entry.iterdir())
    return not entry.name.startswith(".")


def _keeps_pages(folder: Path) -> bool:
    """Whether it is a folder of a cache, which has two hex digits for a name."""
    return (
        folder.is_dir()
        and len(folder.name) == 2
        and set(folder.name) <= set("0123456789abcdef")
    )


def _is_same(one: Path, other: Path) -> bool:
    with suppress(OSError):
        if one.samefile(other):
            return True
    return _real(one) == _real(other)


def _is_in(file: Path, folder: Path) -> bool:
    return file.is_file() and _real(folder) in _real(file).parents


def _real(path: Path) -> Path:
    """The path without links; `Path.resolve` raises where they lead in a circle."""
    return Path(os.path.realpath(path))


def _read_object(path: Path) -> dict[str, object] | None:
    """The JSON object in a file; None where there is none."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


LeftFile = tuple[str, str]
"""A file's path in its folder, and the SHA-256 of its content."""


def read_mark(path: Path) -> set[LeftFile]:
    """The files that a mark names, which lies with them; none where there is no mark.

    Raises:
        InputError: it is no mark.
    """
    if not path.exists():
        return set()
    content = read_json(path)
    try:
        return {(str(name), str(sha256)) for name, sha256 in content["files"]}
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: not what toolbank leaves. Move it away, or give another folder with --out."
        ) from error


def write_mark(path: Path, files: set[LeftFile]) -> None:
    """Name the files that were left in the folder of a mark."""
    write_json(path, {"files": sorted(files)})


def describe_files(folder: Path, paths: Iterable[Path] | None = None) -> set[LeftFile]:
    """These files in a folder, as far as they are there; all in it and in those in it if unset."""
    paths = folder.rglob("*") if paths is None else paths
    return {_describe(path, folder) for path in paths if path.is_file()}


def is_left(path: Path, folder: Path, left: set[LeftFile]) -> bool:
    """Whether a file is as it was left in a folder; a link never was."""
    is_file = path.is_file() and not path.is_symlink()
    return is_file and _describe(path, folder) in left


def foreign_files(
    folder: Path, names: Iterable[str], left: set[LeftFile]
) -> Iterator[Path]:
    """What at or under these names in a folder was not left there as it is.

    A folder in it is nobody's.
    """
    for name in names:
        top = folder / name
        inside = top.rglob("*") if top.is_dir() and not top.is_symlink() else ()
        for path in (top, *inside):
            is_folder = path.is_dir() and not path.is_symlink()
            is_there = os.path.lexists(path) and not is_folder
            if is_there and not is_left(path, folder, left):
                yield path


def _describe(path: Path, folder: Path) -> LeftFile:
    return path.relative_to(folder).as_posix(), sha256_file(path)


_NAME = "toolbank"


def config_folder() -> Path:
    """The folder of the user's settings, as the system has it (`XDG_CONFIG_HOME` on Linux).

    It need not exist yet.
    """
    from platformdirs import user_config_path

    return user_config_path(_NAME, appauthor=False)


def cache_folder() -> Path:
    """The folder of what may be deleted at any time (`XDG_CACHE_HOME` on Linux).

    It need not exist yet.
    """
    from platformdirs import user_cache_path

    return user_cache_path(_NAME, appauthor=False)
