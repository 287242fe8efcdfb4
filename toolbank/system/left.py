"""What the program has left in a folder, known by its content; all else there is somebody's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from toolbank.system.files import sha256_file

LeftFile = tuple[str, str]
"""A file's path in its folder, and the SHA-256 of its content."""


def describe_file(path: Path, folder: Path) -> LeftFile:
    """What is known of a file that was left in a folder."""
    return path.relative_to(folder).as_posix(), sha256_file(path)


def describe_files(folder: Path) -> set[LeftFile]:
    """All files in a folder and in those in it."""
    return {describe_file(path, folder) for path in folder.rglob("*") if path.is_file()}


def foreign_files(
    folder: Path, names: Iterable[str], left: set[LeftFile]
) -> Iterator[Path]:
    """What at or under these names in a folder was not left there as it is.

    A link never was; a folder is nobody's.
    """
    for name in names:
        top = folder / name
        inside = top.rglob("*") if top.is_dir() and not top.is_symlink() else ()
        for path in (top, *inside):
            is_left = path.is_file() and describe_file(path, folder) in left
            if path.is_symlink() or (
                path.exists() and not path.is_dir() and not is_left
            ):
                yield path
