"""An export or a publication takes the place of an earlier one, and of nothing else."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.files import unwritable
from toolbank.system.outputs import describe_files, foreign_files, read_mark, write_mark

MARK = "toolbank-export.json"


@dataclass(frozen=True)
class Kind:
    """What is written to a folder, and the file there that names what was; the option for it.

    One that is a `whole` takes the place of all that an earlier one left. Others may stand side by
    side, each in the place of files of the same name.
    """

    name: str
    mark: str
    option: str
    whole: bool = False


EXPORT = Kind("export", MARK, "--out")


@contextmanager
def replacing(folder: Path, *, alone: bool, kind: Kind = EXPORT) -> Iterator[Path]:
    """Give an empty folder to write an export to; when the block ends well, move it in place.

    What is moved takes the place of files that an earlier export left and nobody has changed:
    the kind's mark, such as toolbank-export.json, names them by content. With `alone`, a folder that holds anything else
    and no export is refused; hidden files such as .git don't count.

    Raises:
        InputError: a file that is no export's, or was changed since, would be lost.
        ToolbankError: the folder can't be written to.
    """
    try:
        if alone and folder.is_dir() and not (folder / kind.mark).exists():
            _refuse(kind, folder, (p for p in folder.iterdir() if p.name[0] != "."))
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".export-") as temporary:
            made, replaced = Path(temporary, "made"), Path(temporary, "replaced")
            made.mkdir()
            replaced.mkdir()
            yield made
            _move(kind, made, folder, replaced)
    except OSError as error:
        raise ToolbankError(unwritable(folder, error)) from error


def _move(kind: Kind, made: Path, folder: Path, replaced: Path) -> None:
    mark = folder / kind.mark
    earlier = read_mark(mark)
    names = {path.name for path in made.iterdir()}
    gone = {Path(file[0]).parts[0] for file in earlier} - names if kind.whole else set()
    _refuse(kind, folder, foreign_files(folder, sorted(names | gone), earlier))
    new = describe_files(made)
    # Both are named while they are exchanged, so that an export cut short can be replaced.
    write_mark(mark, earlier | new)
    for name in sorted(names | gone):
        if (folder / name).exists():
            (folder / name).replace(replaced / name)
        if name in names:
            (made / name).replace(folder / name)
    kept = {file for file in earlier if Path(file[0]).parts[0] not in names | gone}
    write_mark(mark, kept | new)


def _refuse(kind: Kind, folder: Path, foreign: Iterable[Path]) -> None:
    first = min(foreign, default=None)
    if first is not None:
        raise InputError(
            f"{folder}: holds {first.relative_to(folder)}, which no {kind.name} left "
            "there as it is; nothing was written. Move it away, or give another folder with "
            f"{kind.option}."
        )
