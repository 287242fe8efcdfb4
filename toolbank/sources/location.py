"""What a user points at, before it is known which kind of source reads it."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from toolbank.system.errors import InputError
from toolbank.system.files import reading
from toolbank.system.net import is_loopback, is_url, origin

_MOST_BYTES = 64 * 1024 * 1024
_MOST_S = 60.0


@dataclass(frozen=True)
class Location:
    """A file, a folder, an address, a command line, or a name, as somebody typed it."""

    text: str

    @property
    def is_url(self) -> bool:
        """Whether it is an http or https address."""
        return is_url(self.text)

    @cached_property
    def path(self) -> Path | None:
        """The file or folder that it is; None where there is none of this name."""
        try:
            path = Path(self.text).expanduser()
            return path if not self.is_url and path.exists() else None
        except (OSError, ValueError, RuntimeError):
            return None

    @cached_property
    def content(self) -> bytes:
        """The beginning of a file, or what an address gives; of all else nothing.

        Raises:
            InputError: it can't be read.
            ToolbankError: the address can't be read now.
        """
        if self.is_url:
            return self._fetch()
        if self.path is None or not self.path.is_file():
            return b""
        with reading(self.path), self.path.open("rb") as file:
            return file.read(_MOST_BYTES)

    def _fetch(self) -> bytes:
        from toolbank.sources.documents.fetch import fetch, shown

        own = origin(self.text)
        is_here = is_loopback(self.text)
        try:
            _, body = fetch(
                self.text,
                most_bytes=_MOST_BYTES,
                most_s=_MOST_S,
                may_lead_to=lambda _: True,
                is_let_in=lambda url: is_here and origin(url) == own,
            )
        except ValueError as error:
            raise InputError(f"{shown(self.text)}: is no address ({error}).") from error
        return body
