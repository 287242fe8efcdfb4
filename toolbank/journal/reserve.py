"""Room on the disk for the replies that are on their way when it gets full."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

# A thousand replies, at two pages of an index and one of the table each.
_MOST = 24 * 2**20
_SHARE = 4


class Reserve:
    """A nameless file on the journal's disk, which is given up when nothing else fits.

    No other process can take it away, and it goes with this one however that ends.
    """

    def __init__(self, journal: Path) -> None:
        self._folder = journal.parent
        self._file: IO[bytes] | None = None
        self._was_held = False

    def hold(self) -> None:
        """Take the room once, or of a small disk a quarter of what there is."""
        if self._was_held:
            return
        self._was_held = True
        with suppress(OSError):
            free = shutil.disk_usage(self._folder).free
            self._file = TemporaryFile(dir=self._folder)  # noqa: SIM115 - held on
            _allot(self._file, min(_MOST, free // _SHARE))

    def give_up(self) -> bool:
        """Make the room free; gives whether there was any."""
        if self._file is None:
            return False
        self._file.close()
        self._file = None
        return True


def _allot(file: IO[bytes], size: int) -> None:
    """Have the system set room aside, or write zeros where it can't."""
    try:
        os.posix_fallocate(file.fileno(), 0, size)
    except (AttributeError, OSError):
        file.write(bytes(size))
        file.flush()
