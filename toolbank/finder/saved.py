"""A folder that holds a retriever and its tools, apart from any run."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toolbank.bank.files import read_tools, write_tools
from toolbank.bank.records import Tool
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.files import read_json, unwritable, write_json
from toolbank.system.outputs import LeftFile, check_place, describe_files, foreign_files

if TYPE_CHECKING:
    from toolbank.retrievers.base import Retriever

_MARK, _TOOLS, _RETRIEVER = "finder.json", "tools.parquet", "retriever"
_LAYOUT = {"layout": 1, "kind": "finder"}


def is_saved(folder: Path) -> bool:
    """Whether `write_saved` has made a folder."""
    return _read_mark(folder) is not None


def write_saved(folder: Path, retriever: Retriever, tools: Sequence[Tool]) -> None:
    """Write a retriever and its tools to a folder, whole or not at all.

    What an earlier call left there is replaced. Where the process is killed in that moment, it
    lies beside the folder, as .NAME.earlier-...

    Raises:
        InputError: the folder holds anything that an earlier call has not left as it is, is no
            folder, or lies in that of a run.
        ToolbankError: the folder can't be written to.
    """
    _check_free(folder)
    folder = folder.resolve()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            dir=folder.parent, prefix=f".{folder.name}."
        ) as beside:
            made = Path(beside, "made")
            retriever.save(made / _RETRIEVER)
            write_tools(made / _TOOLS, tools)
            files = sorted(describe_files(made))
            write_json(made / _MARK, {**_LAYOUT, "files": files})
            _check_free(folder)
            _move(made, folder)
    except OSError as error:
        raise ToolbankError(unwritable(folder, error)) from error


def read_saved(folder: Path) -> tuple[Retriever, tuple[Tool, ...]]:
    """Read what `write_saved` wrote.

    Raises:
        InputError: a file is missing or damaged.
    """
    from toolbank.retrievers import load_retriever

    retriever = load_retriever(folder / _RETRIEVER)
    tools = read_tools(folder / _TOOLS)
    if retriever.tools != tuple(tool.name for tool in tools):
        raise InputError(
            f"{folder / _TOOLS}: damaged (not the retriever's tools). Save it again."
        )
    return retriever, tools


def _move(made: Path, folder: Path) -> None:
    if not folder.exists():
        made.replace(folder)
        return
    aside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.earlier-"))
    earlier = aside / folder.name
    try:
        folder.replace(earlier)
        made.replace(folder)
    except BaseException:
        if earlier.exists():
            earlier.replace(folder)
        aside.rmdir()
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _check_free(folder: Path) -> None:
    check_place(folder, "a saved finder")
    if folder.is_symlink():
        raise InputError(f"{folder}: a link. Give the folder's own path.")
    if not folder.exists():
        return
    left = _read_mark(folder) or set()
    names = [
        path.name for path in folder.iterdir() if not (left and path.name == _MARK)
    ]
    first = min(foreign_files(folder, names, left), default=None)
    if first is not None:
        raise InputError(
            f"{folder}: holds {first.relative_to(folder)}, which no earlier save left there as "
            "it is; nothing was written. Move it away, or give another folder."
        )


def _read_mark(folder: Path) -> set[LeftFile] | None:
    """The files that a save has left in a folder; None where none has."""
    try:
        content = read_json(folder / _MARK)
        if {key: content[key] for key in _LAYOUT} == _LAYOUT:
            return {(str(name), str(sha256)) for name, sha256 in content["files"]}
    except (InputError, KeyError, TypeError, ValueError):
        pass
    return None
