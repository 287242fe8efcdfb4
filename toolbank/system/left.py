"""What the program has left in a folder, known by its content; all else there is somebody's."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from toolbank.system.errors import InputError
from toolbank.system.files import read_json, sha256_file, write_json

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
