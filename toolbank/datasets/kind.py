"""What a format of datasets says of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import Field

from toolbank.bank.records import Split
from toolbank.config.base import Config
from toolbank.config.explain import reading_content
from toolbank.datasets.gather import Dataset
from toolbank.system.errors import InputError

SPLITS: dict[str, Split] = {
    "train": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
}
"""What a dataset's names of splits mean; `SPLIT_NAMES` says it for people."""
SPLIT_NAMES = "The names of splits that count are train, validation (or valid, val, dev) and test."


class DatasetSettings(Config):
    """A dataset of others: tools, and queries that are labelled with them, wherever it is had."""

    type: str = Field(description="how its files are laid out")
    ordered: bool = Field(
        default=False, description="whether a query's tools stand in the order of calls"
    )

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        raise NotImplementedError


class DatasetConfig(DatasetSettings):
    """A dataset in a folder.

    A format adds `type: Literal[...]` with its name, and settings that only it has.
    """

    path: Path = Field(description="the folder that holds them")

    @property
    def place(self) -> str:
        """The folder."""
        return str(self.path)


C = TypeVar("C", bound=DatasetSettings)


@dataclass(frozen=True)
class DatasetKind(Generic[C]):
    """A format of datasets: its settings, and how its files are found and read.

    - `load` reads the files; it may raise an InputError that names a broken file and its place.
      `gather` makes a sound `Dataset` of what it finds. Use `read`, which checks before and after.
    - `files` are all that `load` reads, there or not: their content is what the bank follows from.
    - `folder` holds them. One that gets them from elsewhere does it there, once a process; `files`
      gets nothing.
    """

    config: type[C]
    load: Callable[[C], Dataset]
    files: Callable[[C], tuple[Path, ...]]
    folder: Callable[[C], Path] = attrgetter("path")

    def read(self, config: C) -> Dataset:
        """Read a dataset.

        Raises:
            InputError: a file can't be read or is broken, or no tool or query is left.
        """
        self.find_files(config)
        with reading_content(
            f"dataset: {config.place}", f"a dataset of the type {config.type}"
        ):
            dataset = self.load(config)
        if not dataset.tools:
            raise InputError(f"{config.place}: no tools in it.")
        if not dataset.queries:
            counts = sorted(dataset.left_out.counts.items())
            reasons = [f"  left out: {reason} ({count:,})" for reason, count in counts]
            raise InputError(
                "\n".join(
                    [
                        f"{config.place}: no query in it can be used.",
                        *reasons,
                        SPLIT_NAMES,
                    ]
                )
            )
        return dataset

    def find_files(self, config: C) -> tuple[Path, ...]:
        """The files that a dataset is read from.

        Raises:
            InputError: the folder or a file is not there.
        """
        folder = self.folder(config)
        if not folder.is_dir():
            raise InputError(
                f"{folder}: no such folder. Set dataset.path to the one that holds the "
                f"dataset's files ({config.type})."
            )
        found = self.files(config)
        for path in found:
            if not path.is_file():
                raise InputError(
                    f"{path}: no such file. A dataset of type {config.type} has it."
                )
        return found
