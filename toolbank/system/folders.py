"""Decide which folders belong to toolbank, with one mark and one rule for all kinds of folders.

A folder belongs to toolbank if its mark names the kind to be written. A new or empty folder is free;
any other one is refused. In a folder of toolbank, a file that the mark does not list, or that has
changed since, belongs to the user, and is never overwritten or deleted.
"""

from __future__ import annotations

import itertools
import os
import shlex
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from toolbank.system.errors import InputError
from toolbank.system.files import (
    read_json,
    reading,
    sha256_file,
    write_error,
    write_json,
)
from toolbank.system.text import decode_json

MARK = ".toolbank.json"
"""The mark in a folder: its kind, and the SHA-256 of each file that toolbank wrote."""

STAGES, ORIGIN, OWNER = "stages.json", "origin.json", ".lock.owner"
"""Files in the folder of a run, which identify it without a mark."""

Files = Mapping[str, str]
"""Paths relative to their folder, with the SHA-256 of the content."""


@dataclass(frozen=True)
class FolderKind:
    """A kind of folder that toolbank writes.

    `option` is the command-line option that names the folder, or "". Earlier versions wrote another
    mark, named `former`, or none: `recognize` gives the files that they wrote, or None if a folder
    is not of this kind.
    """

    name: str
    option: str = "--out"
    former: str = ""
    recognize: Callable[[Path], Files | None] = lambda _: None

    def __str__(self) -> str:
        """The kind with its article, such as "a run"."""
        return f"{'an' if self.name[0] in 'aeiou' else 'a'} {self.name}"


def _recognize_run(path: Path) -> Files | None:
    """Recognize the folder of a run by its files."""
    if (_read_object(path / ORIGIN) or {}).keys() >= _ORIGIN:
        return {}
    stamps = (_read_object(path / STAGES) or {}).values()
    if stamps and all(isinstance(s, dict) and s.keys() >= _STAMP for s in stamps):
        return {}
    # A run whose files are damaged or lost.
    with suppress(OSError, UnicodeDecodeError):
        if (path / OWNER).read_text(encoding="utf-8").startswith("process "):
            return {}
    return None


RUN = FolderKind("run", recognize=_recognize_run)


def is_of_kind(folder: Path, kind: FolderKind) -> bool:
    """Check whether a folder is of a kind, by its mark or the files of an earlier version."""
    try:
        return read_mark(folder, kind) is not None
    except InputError:
        return kind.recognize(folder) is not None


def is_run_folder(path: Path) -> bool:
    """Check whether a folder is that of a run, not just one with a hand-written recipe.yaml."""
    return (path / "recipe.yaml").is_file() and is_of_kind(path, RUN)


def check_folder(folder: Path, kind: FolderKind) -> dict[str, str]:
    """Check that a folder is of a kind or free; gives the files that its mark lists.

    A folder with only hidden files, such as .git, is free.

    Raises:
        InputError: it holds something else, is unreadable, its mark is damaged, or as
            `check_place`.
    """
    with reading(folder):
        _check_rank(folder, str(kind))
        files = read_mark(folder, kind)
        if files is not None:
            return dict(files)
        check_place(folder, str(kind))
        entries = folder.iterdir() if folder.is_dir() else ()
        first = min(filter(_counts, entries), default=None)
    if first is not None:
        place = shlex.quote(str(folder / kind.name.split()[-1]))
        raise InputError(
            f"{folder}: holds {first.name}, and is not the folder of {kind}; nothing was written. "
            f"Give a new or an empty folder, such as {f'{kind.option} {place}'.strip()}."
        )
    return {}


def check_place(path: Path, what: str) -> None:
    """Check that a folder of `what`, such as "a run", can be at a path, whatever it holds.

    Raises:
        InputError: it is a file, the root of the disk or the user's home, or in the folder of a
            run.
    """
    _check_rank(path, what)
    if os.path.lexists(path) and not path.is_dir():
        kind = "a file"
        if path.is_symlink():
            kind = f"a link that leads {'to a file' if path.exists() else 'nowhere'}"
        raise InputError(f"{path}: {kind}, and {what} needs a folder. {_ANOTHER}")
    refuse_run(path, (path, *real_path(path).parents))


def refuse_run(path: Path, folders: Iterable[Path]) -> None:
    """Check that none of these folders of a path is that of a run.

    Raises:
        InputError: it is.
    """
    run = next(filter(is_run_folder, folders), None)
    if run is not None:
        raise InputError(f"{path}: in the folder of a run ({run}). {_ANOTHER}")


def check_no_link(paths: Iterable[Path]) -> None:
    """Check that none of `paths`, and no folder under one, is a link.

    Raises:
        InputError: one is.
    """
    for path in paths:
        folders = (
            Path(where, name) for where, names, _ in os.walk(path) for name in names
        )
        link = next(filter(Path.is_symlink, itertools.chain([path], folders)), None)
        if link is not None:
            raise InputError(
                f"{link}: a link, and a run does not write through links. Put the folder or file itself "
                "there, move the link away, or give another --out."
            )


def claim_folder(folder: Path, kind: FolderKind) -> dict[str, str]:
    """Mark a folder as one of a kind before anything is written to it; gives the listed files.

    A folder of an earlier version gets a new mark.

    Raises:
        InputError: as `check_folder`.
        ToolbankError: it can't be written to.
    """
    files = check_folder(folder, kind)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(folder, error) from error
    write_mark(folder, kind, files)
    return files


@contextmanager
def replacing(
    folder: Path, kind: FolderKind, *, whole: bool = False, optional: Sequence[str] = ()
) -> Iterator[Path]:
    """Give an empty folder to write to; if the block succeeds, move its content to `folder`.

    Listed, unchanged files of the same names are replaced, and the `optional` ones removed; with
    `whole`, all listed files are.

    Raises:
        InputError: a file of the user would be lost, or as `check_folder`.
        ToolbankError: the folder can't be written to.
    """
    check_folder(folder, kind)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".new-") as temporary:
            made, replaced = Path(temporary, "made"), Path(temporary, "replaced")
            made.mkdir()
            replaced.mkdir()
            yield made
            files = check_folder(folder, kind)
            names = {path.name for path in made.iterdir()}
            listed = {Path(name).parts[0] for name in files}
            gone = names | (listed if whole else listed & {*optional})
            refuse_foreign(folder, kind, gone, files)
            # All files are listed at every moment, so the process may be killed at any.
            write_mark(folder, kind, files)
            for name in sorted(gone):
                if os.path.lexists(folder / name):
                    (folder / name).replace(replaced / name)
            kept = {k: v for k, v in files.items() if Path(k).parts[0] not in gone}
            write_mark(folder, kind, {**kept, **hash_files(made)})
            for name in sorted(names):
                (made / name).replace(folder / name)
    except OSError as error:
        raise write_error(folder, error) from error


def read_mark(folder: Path, kind: FolderKind) -> Files | None:
    """Read the files that the mark of a folder lists; None if it is not of this kind.

    Raises:
        InputError: the mark is damaged, or a link.
    """
    for name in filter(None, (MARK, kind.former)):
        path = folder / name
        if path.is_symlink():
            raise _no_mark(path, kind)
        if path.exists():
            files = read_listed(path, kind)
            if files is None or name == MARK:
                return files
            return {**files, name: sha256_file(path)}
    return kind.recognize(folder)


def read_listed(path: Path, kind: FolderKind) -> dict[str, str] | None:
    """Read the files of a mark of this or an earlier version; None if it is of another kind.

    Raises:
        InputError: it is not a mark, or lists paths outside of its folder.
    """
    content = read_json(path)
    try:
        files = {check_inside(k): v + "" for k, v in dict(content["files"]).items()}
        name = content["kind"] if path.name == MARK else kind.name
    except (KeyError, TypeError, ValueError) as error:
        raise _no_mark(path, kind) from error
    return files if name == kind.name else None


def write_mark(folder: Path, kind: FolderKind, files: Files) -> None:
    """List the files of a folder in its mark, and delete the mark of an earlier version.

    Raises:
        ToolbankError: it can't be written.
    """
    listed = {name: files[name] for name in sorted(files) if name != kind.former}
    write_json(folder / MARK, {"kind": kind.name, "files": listed})
    if kind.former:
        remove_files(folder, files, folder / kind.former)


def hash_files(folder: Path, paths: Iterable[Path] | None = None) -> dict[str, str]:
    """Hash files of a folder; if `paths` is unset, all in it and its subfolders.

    Raises:
        InputError: one is missing or unreadable.
    """
    if paths is None:
        paths = filter(Path.is_file, folder.rglob("*"))
    return {p.relative_to(folder).as_posix(): sha256_file(p) for p in sorted(paths)}


def is_unchanged(folder: Path, name: str, files: Files) -> bool:
    """Check whether a file is listed and unchanged, and neither a link nor behind one."""
    path = folder / name
    return (
        name in files
        and stat.S_ISREG(_mode(path))
        and real_path(path) == real_path(folder) / name
        and sha256_file(path) == files[name]
    )


def refuse_foreign(
    folder: Path, kind: FolderKind, names: Iterable[str], files: Files
) -> None:
    """Check that no file at or under these names belongs to the user.

    Raises:
        InputError: one does.
    """
    paths = (
        path
        for top in (folder / name for name in names)
        for path in (top, *(top.rglob("*") if stat.S_ISDIR(_mode(top)) else ()))
    )
    foreign = (
        path
        for path in paths
        if (mode := _mode(path))
        and not stat.S_ISDIR(mode)
        and not is_unchanged(folder, path.relative_to(folder).as_posix(), files)
    )
    first = min(foreign, default=None)
    if first is not None:
        raise InputError(
            f"{folder}: holds {first.relative_to(folder)}, which is not that of {kind}; nothing "
            f"was written. {_move_away(kind)}"
        )


def remove_files(folder: Path, files: Files, path: Path) -> None:
    """Delete listed, unchanged files at or under `path`, and folders that are then empty."""
    for name in files:
        if (folder / name).is_relative_to(path) and is_unchanged(folder, name, files):
            (folder / name).unlink()
    if not path.is_symlink():
        for where, _, _ in os.walk(path, topdown=False):
            with suppress(OSError):
                Path(where).rmdir()


def set_aside(folder: Path, paths: Iterable[Path]) -> Path | None:
    """Move existing paths of `folder` to a new folder replaced/N in it; gives that.

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
        raise write_error(target, error) from error
    return target


def check_inside(name: str) -> str:
    """Check that a path is valid, and stays in its folder.

    Raises:
        ValueError: it does not.
    """
    path = Path(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
        raise ValueError(f"{name} is not in the folder")
    os.fsencode(name)
    return name


def real_path(path: Path) -> Path:
    """Resolve links; unlike `Path.resolve`, it does not raise for circular ones."""
    return Path(os.path.realpath(path))


_ANOTHER = "Give another place."
_STAMP = {"key", "complete", "outputs"}
_ORIGIN = {"name", "seed", "recipe_sha256"}
# Hidden files that would be overwritten.
_LOCKS = (".lock", OWNER)


def _mode(path: Path) -> int:
    """Return the mode of a file, folder or link; 0 if there is none."""
    try:
        return path.lstat().st_mode
    except (OSError, ValueError):
        return 0


def _counts(entry: Path) -> bool:
    """Check whether an entry means that a folder is not free."""
    return entry.name in _LOCKS or not entry.name.startswith(".")


def _check_rank(path: Path, what: str) -> None:
    place = real_path(path)
    if place == Path(place.anchor):
        name = "the root of the disk"
    elif place == real_path(Path.home()):
        name = "your home folder"
    else:
        return
    raise InputError(
        f"{path}: {name}, and {what} needs a folder of its own. {_ANOTHER}"
    )


def _no_mark(path: Path, kind: FolderKind) -> InputError:
    return InputError(f"{path}: not what toolbank leaves. {_move_away(kind)}")


def _move_away(kind: FolderKind) -> str:
    return (
        f"Move it away, or give another folder{kind.option and f' with {kind.option}'}."
    )


def _read_object(path: Path) -> dict[str, object] | None:
    """Read the JSON object in a file; None if there is none."""
    try:
        content = decode_json(path.read_bytes())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None
