"""Room on the disk for the replies that are on their way when it gets full."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

# A thousand replies, at two pages of an index and one of the table each.
_MOST = 24 * 2**20
_SHARE = 4


class Reserve:
    """A file of zeros beside the journal, which is given up when nothing else fits."""

    def __init__(self, journal: Path) -> None:
        self._path = journal.with_name(f"{journal.name}-reserve")
        self._is_held = False

    def hold(self) -> None:
        """Take the room, or of a small disk a quarter of what there is."""
        if self._is_held:
            return
        self._is_held = True
        with suppress(OSError):
            free = shutil.disk_usage(self._path.parent).free
            self._path.write_bytes(bytes(min(_MOST, free // _SHARE)))

    def give_up(self) -> bool:
        """Make the room free; gives whether there was any."""
        try:
            self._path.unlink()
        except OSError:
            return False
        return True
