"""A folder that holds a retriever and its tools, apart from any run."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from toolbank.bank.files import read_tools, write_tools
from toolbank.bank.records import Tool
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.files import read_json, unwritable, write_json

if TYPE_CHECKING:
    from toolbank.retrievers.base import Retriever

_MARK, _TOOLS, _RETRIEVER = "finder.json", "tools.parquet", "retriever"
_LAYOUT = {"layout": 1, "kind": "finder"}


def is_saved(folder: Path) -> bool:
    """Whether `write_saved` has made a folder."""
    with suppress(InputError):
        return bool(read_json(folder / _MARK) == _LAYOUT)
    return False


def write_saved(folder: Path, retriever: Retriever, tools: Sequence[Tool]) -> None:
    """Write a retriever and its tools to a folder, whole or not at all.

    Raises:
        InputError: the folder holds anything that an earlier call has not left.
        ToolbankError: the folder can't be written to.
    """
    _check_free(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            dir=folder.parent, prefix=f".{folder.name}."
        ) as beside:
            made, earlier = Path(beside, "made"), Path(beside, "earlier")
            retriever.save(made / _RETRIEVER)
            write_tools(made / _TOOLS, tools)
            write_json(made / _MARK, _LAYOUT)
            if folder.exists():
                folder.replace(earlier)
            made.replace(folder)
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


def _check_free(folder: Path) -> None:
    if folder.is_dir() and not folder.is_symlink():
        ours = {_MARK, _TOOLS, _RETRIEVER} if is_saved(folder) else set()
        foreign = sorted(path.name for path in folder.iterdir())
        first = next((name for name in foreign if name not in ours), None)
        if first is None:
            return
        what = f"holds {first}, which no earlier save left there"
    elif folder.exists() or folder.is_symlink():
        what = "not a folder"
    else:
        return
    raise InputError(
        f"{folder}: {what}; nothing was written. Give another folder, or a new one."
    )
