"""Which reply files lay there when a round was written: they can't be of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from toolbank.system.errors import InputError
from toolbank.system.files import write_json

Seen = dict[int, dict[str, int]]

_SEEN = "seen.json"


def read_seen(folder: Path) -> Seen:
    """The bytes of each reply file that lay there when a round was written, by its number.

    Raises:
        InputError: the file that holds this can't be read.
    """
    path = folder / _SEEN
    try:
        content = path.read_bytes()
        return TypeAdapter(Seen).validate_json(content, strict=False)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InputError(f"{path}: can't read ({error.strerror or error}).") from error
    except ValidationError as error:
        raise InputError(
            f"{path}: not as it was written here. Delete it; replies to requests that were "
            "asked twice may then be looked for once more."
        ) from error


def write_seen(folder: Path, number: int, reply_files: Mapping[str, int]) -> None:
    """Note the bytes of the reply files that can't be of a round, before it gets its files.

    Raises:
        ToolbankError: the folder can't be written to.
    """
    seen = read_seen(folder)
    write_json(folder / _SEEN, {**seen, number: reply_files})
