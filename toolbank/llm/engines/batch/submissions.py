"""What was handed to the hosted API: noted at once, so that nothing is handed in twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from toolbank.system.errors import InputError
from toolbank.system.files import read_text, write_json


class Submission(BaseModel):
    """A request file at the endpoint: the uploaded file, its batch, and how that ended.

    `mark` is on the batch, so that it is found again; `begun` is "create" while nobody knows
    whether the endpoint has made it; `status` is how it ended, once its replies are fetched.
    """

    model_config = ConfigDict(frozen=True)

    sha256: str = ""
    mark: str = ""
    file: str = ""
    batch: str = ""
    begun: str = ""
    status: str = ""


class Submissions:
    """The file `submitted.json` of a folder, by the names of the request files.

    Raises:
        InputError: the file can't be read.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "submitted.json"
        self._entries = self._read()

    def __iter__(self) -> Iterator[str]:
        """The names of the request files that something is known of."""
        return iter(self._entries)

    def get(self, name: str) -> Submission:
        """What is known of a request file."""
        return self._entries.get(name) or Submission()

    def note(self, name: str, entry: Submission) -> None:
        """Keep what is known of a request file; it is on disk when this returns.

        Raises:
            ToolbankError: the folder can't be written to.
        """
        self._entries[name] = entry
        rows = {key: value.model_dump() for key, value in self._entries.items()}
        write_json(self.path, rows)

    def change(self, name: str, **values: str) -> None:
        """Note what is new of a request file.

        Raises:
            ToolbankError: the folder can't be written to.
        """
        self.note(name, self.get(name).model_copy(update=values))

    def _read(self) -> dict[str, Submission]:
        if not self.path.exists():
            return {}
        try:
            return TypeAdapter(dict[str, Submission]).validate_json(
                read_text(self.path)
            )
        except ValidationError as error:
            raise InputError(
                f"{self.path}: not as it was written here. Mend it; without it, what was "
                "submitted and not fetched would be submitted once more."
            ) from error
