"""Where the program may write: nobody's file is overwritten, nobody's folder is moved into."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.files import sha256_file, unwritable, write_text
from toolbank.system.user_folders import cache_folder

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
        kind = "a link that leads nowhere" if path.is_symlink() else "a file"
        raise InputError(f"{path}: {kind}, and {what} needs a folder. {_ANOTHER}")
    _refuse_run(path, (path, *_real(path).parents))


def check_output(path: Path, inputs: Iterable[Path] = ()) -> None:
    """Refuse a file that can't be written without touching what is somebody's.

    A file that a command left there may be replaced as long as nobody has changed it since: the
    user's cache folder keeps its hash.

    Raises:
        InputError: it is one of `inputs`, a link, a folder or a device, is there already, lies in
            the folder of a run, or its folder is missing.
    """
    for read in inputs:
        if _is_same(path, read):
            raise InputError(
                f"{path}: would be written over what is read ({read}). {_ANOTHER}"
            )
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
    if path.exists() and not is_left_by_us(path):
        raise InputError(
            f"{path}: is there already, and no command left it there as it is. Move it away, or "
            "give another --out."
        )


@contextmanager
def writing_output(path: Path, inputs: Iterable[Path] = ()) -> Iterator[None]:
    """Have the block write a file to `path`, if nothing is in its way, and know it again later.

    Raises:
        InputError: as `check_output` does, before the block.
    """
    check_output(path, inputs)
    yield
    note_output(path)


def note_output(path: Path) -> None:
    """Note that a file was left by a command as it is now, so that another may replace it."""
    # Without the note the file is only taken for somebody's.
    with suppress(OSError, ToolbankError):
        write_text(_note(path), sha256_file(path))


def is_left_by_us(path: Path) -> bool:
    """Whether a file is as a command left it."""
    with suppress(OSError):
        is_file = path.is_file() and not path.is_symlink()
        return is_file and _note(path).read_text() == sha256_file(path)
    return False


def set_aside(folder: Path, paths: Iterable[Path]) -> Path | None:
    """Move what is there of these, in `folder`, to a new folder replaced/N in it; gives that.

    Raises:
        ToolbankError: it can't be moved.
    """
    there = [path for path in paths if os.path.lexists(path)]
    if not there:
        return None
    taken = {path.name for path in (folder / "replaced").glob("*")}
    numbers = (str(number) for number in count(1))
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


def _real(path: Path) -> Path:
    """The path without links; `Path.resolve` raises where they lead in a circle."""
    return Path(os.path.realpath(path))


def _note(path: Path) -> Path:
    """Where the hash of a file that was written is kept."""
    key = hashlib.sha256(os.fsencode(_real(path))).hexdigest()
    return cache_folder() / "written" / key


def _read_object(path: Path) -> dict[str, object] | None:
    """The JSON object in a file; None where there is none."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None
