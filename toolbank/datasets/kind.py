"""The kind of a dataset format: its settings, files and reader."""

from __future__ import annotations

import re
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
"""The meaning of a dataset's names of splits."""
_SPLIT = re.compile(rf"(?:^|[-_.])({'|'.join(SPLITS)})(?=$|[-_.])")
SPLIT_NAMES = "Recognised splits: train, validation (valid, val, dev) and test."


def find_split(path: Path) -> Split | None:
    """Find the split that the name of a file has, if any."""
    found = _SPLIT.search(path.stem)
    return SPLITS[found[1]] if found else None


class DatasetSettings(Config):
    """An existing dataset: tools, and queries labelled with them."""

    type: str = Field(description="the format")
    ordered: bool = Field(default=False, description="whether tools are in call order")

    @property
    def place(self) -> str:
        """Its place in messages."""
        raise NotImplementedError


class DatasetConfig(DatasetSettings):
    """A dataset in a folder.

    A format adds `type: Literal[...]` with its name, and settings that only it has.
    """

    path: Path = Field(description="the folder")

    @property
    def place(self) -> str:
        """The folder."""
        return str(self.path)


C = TypeVar("C", bound=DatasetSettings)


@dataclass(frozen=True)
class DatasetKind(Generic[C]):
    """A format of datasets: its settings, and how its files are found and read.

    - `load` reads the files; it may raise an InputError that names a broken file and its place.
      `gather` makes a sound `Dataset` of its results. Call `read`, which checks before and after.
    - `files` lists all files that `load` reads, whether they exist or not; the bank depends on
      their content.
    - `folder` returns their folder. A format that downloads files does it there, once per process.
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
        if not dataset.tools or not dataset.queries:
            lack = (
                "no query can be used" if dataset.tools else "the dataset has no tools"
            )
            lines = [f"{config.place}: {lack}."]
            for reason, number in sorted(dataset.left_out.counts.items()):
                lines.append(f"  skipped: {reason} ({number:,})")
            raise InputError("\n".join([*lines, SPLIT_NAMES]))
        return dataset

    def find_files(self, config: C) -> tuple[Path, ...]:
        """List the files that a dataset is read from.

        Raises:
            InputError: the folder or a file is missing.
        """
        folder = self.folder(config)
        if not folder.is_dir():
            raise InputError(
                f"{folder}: no such folder. Set dataset.path to the folder of the dataset "
                f"({config.type})."
            )
        found = self.files(config)
        for path in found:
            if not path.is_file():
                raise InputError(
                    f"{path}: no such file. A dataset of type {config.type} needs it."
                )
        return found
