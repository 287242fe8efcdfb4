"""Reading a dataset of whatever format a recipe names."""

from pathlib import Path
from typing import Any

from toolbank.loaders import DATASETS
from toolbank.loaders.gather import Dataset
from toolbank.loaders.kind import DatasetConfig, DatasetKind


def read_dataset(config: DatasetConfig) -> Dataset:
    """Read a dataset of any type.

    Raises:
        InputError: a file can't be read or is broken, or no tool or query is left.
    """
    return _find_kind(config).read(config)


def dataset_files(config: DatasetConfig) -> tuple[Path, ...]:
    """The files that a dataset is read from.

    Raises:
        InputError: the folder or a file is not there.
    """
    return _find_kind(config).find_files(config)


def _find_kind(config: DatasetConfig) -> DatasetKind[Any]:
    return DATASETS.find(config.type, "dataset.type")
