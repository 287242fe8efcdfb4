"""Which loader reads which type of dataset."""

from collections.abc import Callable
from pathlib import Path

from toolbank.loaders.config import SPLIT_NAMES, DatasetConfig
from toolbank.loaders.gather import Dataset
from toolbank.loaders.jsonl import jsonl_files, read_jsonl
from toolbank.loaders.toolbank import read_toolbank, toolbank_files
from toolbank.loaders.toolbench import read_toolbench, toolbench_files
from toolbank.loaders.toollens import read_toollens, toollens_files
from toolbank.system.errors import InputError

_LOADERS: dict[
    str,
    tuple[
        Callable[[DatasetConfig], Dataset],
        Callable[[DatasetConfig], tuple[Path, ...]],
    ],
] = {
    "jsonl": (read_jsonl, jsonl_files),
    "toolbank": (read_toolbank, toolbank_files),
    "toolbench": (read_toolbench, toolbench_files),
    "toollens": (read_toollens, toollens_files),
}


def read_dataset(config: DatasetConfig) -> Dataset:
    """Read a dataset of any type.

    Raises:
        InputError: a file can't be read or is broken, or no tool or query is left.
    """
    dataset_files(config)
    read, _ = _LOADERS[config.type]
    dataset = read(config)
    if not dataset.tools:
        raise InputError(f"{config.path}: no tools in it.")
    if not dataset.queries:
        counts = sorted(dataset.left_out.counts.items())
        reasons = [f"  left out: {reason} ({count:,})" for reason, count in counts]
        raise InputError(
            "\n".join(
                [f"{config.path}: no query in it can be used.", *reasons, SPLIT_NAMES]
            )
        )
    return dataset


def dataset_files(config: DatasetConfig) -> tuple[Path, ...]:
    """The files that a dataset is read from.

    Raises:
        InputError: the folder or a file is not there.
    """
    if not config.path.is_dir():
        raise InputError(
            f"{config.path}: no such folder. Set dataset.path to the one that holds the "
            f"dataset's files ({config.type})."
        )
    _, files = _LOADERS[config.type]
    found = files(config)
    for path in found:
        if not path.is_file():
            raise InputError(
                f"{path}: no such file. A dataset of type {config.type} has it."
            )
    return found
