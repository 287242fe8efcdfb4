"""Folders that version 0.4 began: `seen.json` said which files of replies are of which round."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.files import unwritable

_HAS_ROUND = re.compile(r"round-\d+\b")


def name_rounds(folder: Path) -> None:
    """Put the round before the name of each file of replies that was read.

    `seen.json` has the bytes of the files that lay there when a round was written, by its
    number: these are of an earlier one.

    Raises:
        InputError: `seen.json` can't be read.
        ToolbankError: the folder can't be written to.
    """
    path = folder / "seen.json"
    if not path.exists():
        return
    try:
        seen = TypeAdapter(dict[int, dict[str, int]]).validate_json(path.read_bytes())
        for number, sizes in sorted(seen.items()):
            for name, size in sizes.items():
                file = folder / name
                is_named = _HAS_ROUND.match(name) or Path(name).name != name
                if not is_named and file.is_file() and file.stat().st_size == size:
                    file.rename(folder / f"round-{number - 1:03d}.{name}")
        path.unlink()
    except ValidationError as error:
        raise InputError(
            f"{path}: not as it was written here. Delete it; replies to requests that were "
            "asked twice may then be looked for once more."
        ) from error
    except OSError as error:
        raise ToolbankError(unwritable(path, error)) from error
