"""Records that lie on disk while a process lasts."""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Collection, Iterator
from io import SEEK_END
from typing import Generic, TypeVar

from pydantic import BaseModel

from toolbank.system.errors import ToolbankError

_Record = TypeVar("_Record", bound=BaseModel)


class DiskList(Collection[_Record], Generic[_Record]):
    """A list of records of one kind in a temporary file, which ends with the process.

    Raises:
        ToolbankError: the folder for temporary files is full.
    """

    def __init__(self, kind: type[_Record]) -> None:
        self._kind = kind
        self._file = tempfile.TemporaryFile(dir=_temporary_folder())  # noqa: SIM115
        self._ends = array("Q", [0])

    def append(self, record: _Record) -> None:
        """Put a record at the end."""
        written = record.model_dump_json().encode()
        try:
            self._file.write(written)
        except OSError as error:
            raise full_folder(error) from error
        self._ends.append(self._ends[-1] + len(written))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __iter__(self) -> Iterator[_Record]:
        return (self[position] for position in range(len(self)))

    def __getitem__(self, position: int) -> _Record:
        start, end = self._ends[position], self._ends[position + 1]
        try:
            self._file.seek(start)
        except OSError as error:
            # What was appended is written out first.
            raise full_folder(error) from error
        written = self._file.read(end - start)
        self._file.seek(0, SEEK_END)
        return self._kind.model_validate_json(written)

    def __contains__(self, record: object) -> bool:
        return any(one == record for one in self)


def _temporary_folder() -> str | None:
    """Where SQLite puts its temporary files; /tmp often lies in memory."""
    named = os.environ.get("TMPDIR")
    return named or next(filter(os.path.isdir, ["/var/tmp"]), None)  # noqa: S108


def full_folder(error: Exception) -> ToolbankError:
    """What to do where temporary files have no room."""
    return ToolbankError(
        f"the folder for temporary files can't hold more ({error}). Make room in it, or name "
        "another one in the environment variable TMPDIR, and run the same command again: the "
        "replies are in the journal."
    )
